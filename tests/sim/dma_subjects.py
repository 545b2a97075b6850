"""Models in the memory of an accelerator with DMA."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rtl.compile.image import image_bytes
from rtl.dma.bus import Bus
from rtl.interface.config import Config
from sim.machine.board import MemoryBoard, design_of
from sim.machine.machine import library
from tests.zoo import Compiled

BUS = Bus(data_bits=64, burst=8, outstanding=4)


def limits(lanes: int, **options: Any) -> Config:
    """A small accelerator with these options."""
    return Config(lanes=lanes, tokens=max(12, 2 * lanes), hidden=16, ffn=16, labels=4, **options)


@dataclass(frozen=True)
class Subject(Compiled):
    """A model, and where its image lies."""

    address: int = 0


@cache
def subjects(lanes: int, **options: Any) -> tuple[Subject, ...]:
    """The first image is aligned to nothing but words, the second crosses a page where it can."""
    made = limits(lanes, **options)
    first = Subject("no-pooler", made, address=0x1000 + made.stream_width)
    end = first.address + len(image_bytes(first.image))
    second = -(-end // 4096) * 4096 + 4096 - made.stream_width
    return first, Subject("pre-norm", made, address=second)


@cache
def tagger(lanes: int, **options: Any) -> Subject:
    """One with logits for every token, behind the others."""
    last = subjects(lanes, **options)[-1]
    end = last.address + len(image_bytes(last.image))
    made = limits(lanes, **options)
    return Subject("every-token", made, labels=2, address=-(-end // 64) * 64)


def board_of(lanes: int, bus: Bus, program: Path | None = None, **options: Any) -> MemoryBoard:
    """Its memory holds their images; a library may take the place of the sound one."""
    board = MemoryBoard(program or library(design_of(limits(lanes, **options), bus)), bus)
    held = *subjects(lanes, **options), tagger(lanes, **options)
    board.hold({one.address: image_bytes(one.image) for one in held})
    return board

"""Models in the memory of an accelerator with DMA."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from golden.encoder import run as golden
from golden.model import Model
from golden.random import random_model
from rtl.compile.image import Image, image_bytes
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.dma.bus import Bus
from rtl.interface.config import Config
from sim.dma.board import Board, design_of, library
from tests.shapes import SHAPES

BUS = Bus(data_bits=64, burst=8, outstanding=4)


def limits(lanes: int) -> Config:
    return Config(lanes=lanes, tokens=max(12, 2 * lanes), hidden=16, ffn=16, labels=4)


@dataclass(frozen=True)
class Subject:
    """A model, and where its image lies."""

    shape: int
    lanes: int
    address: int

    @cached_property
    def model(self) -> Model:
        return random_model(SHAPES[self.shape], self.shape)

    @cached_property
    def program(self) -> Program:
        return compile_model(self.model, limits(self.lanes))

    @cached_property
    def image(self) -> Image:
        table = embedding_table(self.model, self.lanes)
        stream = self.program.stream()
        return Image(stream=stream, rows=table.tobytes(), row_bytes=table[0].nbytes)

    def sequence(self, tokens: int) -> tuple[Any, Any, Any]:
        """ids, types and attend bits."""
        draw = np.random.default_rng([self.shape, tokens])
        shape = self.model.shape
        ids = draw.integers(0, shape.vocabulary, tokens)
        types = draw.integers(0, max(shape.types, 1), tokens)
        return ids, types, np.r_[1, draw.integers(0, 2, tokens - 1)]

    def words(self, tokens: int) -> list[int]:
        ids, types, attend = self.sequence(tokens)
        return (ids | types << 24 | attend << 25).tolist()

    def logits(self, tokens: int) -> list[int]:
        return [int(logit) for logit in golden(self.model, *self.sequence(tokens))]


@cache
def subjects(lanes: int) -> tuple[Subject, ...]:
    """The first image is aligned to nothing but words, the second crosses a page where it can."""
    first = Subject(0, lanes, 0x1000 + lanes)
    end = first.address + len(image_bytes(first.image))
    return first, Subject(1, lanes, -(-end // 4096) * 4096 + 4096 - lanes)


def board_of(lanes: int, bus: Bus, design: Any = None, variant: str = "") -> Board:
    made = design or design_of(limits(lanes), bus)
    board = Board(library(made, bus, variant), bus)
    board.hold({one.address: image_bytes(one.image) for one in subjects(lanes)})
    return board

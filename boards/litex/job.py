"""What the CPU finds in its memory, and what its lines have to say of it."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from golden.encoder import run as golden
from golden.model import Model, Shape
from golden.random import random_model
from rtl.compile.fit import fitting_model, longest_sequence
from rtl.compile.image import image_bytes
from rtl.compile.program import Program, compile_model, image_of
from rtl.dma.bus import Bus
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.cycles.dma import predict_dma
from tb.packing import token_words

SMALL = Shape(
    layers=1,
    hidden=8,
    heads=2,
    head_size=4,
    ffn=12,
    labels=3,
    vocabulary=20,
    positions=32,
    types=2,
)
LIMITS: dict[str, Any] = {"tokens": 32, "hidden": 8, "ffn": 16, "labels": 4}
"""Of the accelerator for SMALL; the fewer, the sooner the simulation is built."""
ALIGNMENT = 64
PAGE = 4096
IMAGE_DAMAGED = -15
"""The C driver's code of an image that is not what its CRCs say."""
LATENCY = 1
"""Cycles of the memory behind which the prediction is made: none could be nearer."""
INFERENCE = re.compile(r"(.+): code (-?\d+), (\d+) cycles, logits((?: -?\d+)*)")


@dataclass(frozen=True)
class Step:
    """An inference, as the CPU tells it or as it has to."""

    name: str
    code: int
    logits: tuple[int, ...]
    cycles: int = 0


@dataclass(frozen=True)
class Tokens:
    """A sequence, attend bits of 0 and 1."""

    ids: np.ndarray
    types: np.ndarray
    attend: np.ndarray


class Job:
    """A model, and sequences for it.

    Parameters
    ----------
    model
        None: a random one of shape SMALL.
    lanes, columns
        Of the accelerator; its limits are such that the model fits.
    count, seed
        How many sequences, and what they are drawn by.
    bus
        Of the accelerator.
    """

    def __init__(
        self,
        model: Model | None,
        lanes: int,
        count: int,
        seed: int,
        bus: Bus,
        *,
        columns: int | None = None,
    ) -> None:
        self.bus = bus
        rng = np.random.default_rng(seed)
        self.model = model or random_model(SMALL, seed)
        self.config = replace(Config(lanes=lanes, columns=columns), **LIMITS)
        if model is not None:
            self.config = fitting_model(model, lanes, 1, columns=columns)
        longest = min(longest_sequence(self.model, self.config), 3 * lanes)
        lengths = 1 + rng.permutation(longest)
        self.sequences = [self._drawn(int(lengths[i % longest]), rng) for i in range(count)]

    def _drawn(self, tokens: int, rng: np.random.Generator) -> Tokens:
        """A sequence; its first token is always attended to."""
        shape = self.model.shape
        return Tokens(
            rng.integers(0, shape.vocabulary, tokens),
            rng.integers(0, max(shape.types, 1), tokens),
            np.r_[1, rng.integers(0, 2, tokens - 1)],
        )

    @cached_property
    def program(self) -> Program:
        return compile_model(self.model, self.config)

    @cached_property
    def memory(self) -> bytes:
        """What firmware/main.c says: numbers, words of the sequences, the image."""
        image = image_bytes(image_of(self.model, self.program))
        words: list[int] = []
        for one in self.sequences:
            tokens = token_words(one.ids, one.types, one.attend)
            words += [len(tokens), *map(int, tokens)]
        offset = -(-4 * (3 + len(words)) // ALIGNMENT) * ALIGNMENT
        head = struct.pack(f"<{3 + len(words)}I", offset, len(image), len(self.sequences), *words)
        return head.ljust(offset, b"\0") + image

    @property
    def memory_bytes(self) -> int:
        """Of the SoC's memory: a power of two that holds it."""
        return max(PAGE, 1 << (len(self.memory) - 1).bit_length())

    @cached_property
    def logits(self) -> list[tuple[int, ...]]:
        """golden's, of each sequence."""
        return [
            tuple(
                int(logit)
                for logit in golden(self.model, one.ids, one.types, one.attend).reshape(-1)
            )
            for one in self.sequences
        ]

    @cached_property
    def predicted(self) -> list[int]:
        """Cycles of each sequence where a beat comes every cycle, LATENCY after its address."""
        address = self.memory.index(b"B2RTIMG")
        return [
            predict_dma(
                self.program,
                one.ids.tolist(),
                one.types.tolist(),
                bus=self.bus,
                latency=LATENCY,
                address=address,
            ).cycles
            for one in self.sequences
        ]

    @property
    def steps(self) -> list[Step]:
        """What has to come, without cycles."""
        sound = [("polling", logits) for logits in self.logits]
        sound += [("interrupt", logits) for logits in self.logits]
        first = self.logits[0]
        return [
            *(Step(name, Error.NONE, logits) for name, logits in sound),
            Step("flipped bit", Error.CRC, ()),
            Step("flipped back", Error.NONE, first),
            Step("flipped row", IMAGE_DAMAGED, ()),
            Step("image again", Error.NONE, ()),
            Step("nothing there", Error.BUS, ()),
            Step("there again", Error.NONE, first),
        ]

    @property
    def interrupts(self) -> str:
        """The line of the interrupts: one for each inference that waited for it, none is left."""
        return f"{len(self.sequences)} interrupts, pending 0"


def steps_of(lines: Sequence[str]) -> list[Step]:
    """The inferences that the CPU's lines tell of."""
    found = filter(None, map(INFERENCE.fullmatch, lines))
    return [Step(m[1], int(m[2]), tuple(map(int, m[4].split())), cycles=int(m[3])) for m in found]


def difference(lines: Sequence[str], job: Job) -> str:
    """The first thing in the CPU's lines that is not as it has to be; "" where there is none."""
    for line in lines:
        if line.startswith("failed"):
            return f"the CPU says: {line}"
    if "end" not in lines:
        return f"the CPU does not come to its end; its last line: {lines[-1] if lines else ''!r}"
    told, expected = steps_of(lines), job.steps
    if [step.name for step in told] != [step.name for step in expected]:
        return f"the CPU's inferences are {', '.join(step.name for step in told) or 'none'}"
    for one, other in zip(told, expected):
        if (one.code, one.logits) != (other.code, other.logits):
            return (
                f"{one.name}: code {one.code}, logits {list(one.logits)}; it has to be "
                f"code {int(other.code)}, logits {list(other.logits)}"
            )
    if job.interrupts not in lines:
        said = next((line for line in lines if "interrupts" in line), "nothing of interrupts")
        return f"the CPU says {said!r}, it has to be {job.interrupts!r}"
    return ""

"""The models that the fuzzer plays, small enough for a case of milliseconds."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from golden.encoder import run as golden
from golden.model import Model, Shape
from golden.random import random_model
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import Config
from sim.fuzz.job import Packets, Run
from tb.packing import token_words

SHAPES = (
    Shape(
        layers=1, hidden=8, heads=2, head_size=4, ffn=12, labels=2,
        vocabulary=20, positions=32, types=2,
    ),
    Shape(
        layers=1, hidden=6, heads=1, head_size=3, ffn=9, labels=3,
        vocabulary=11, positions=27, types=0, norm="pre", embedding_norm=False, pooling="mean",
    ),
    Shape(
        layers=2, hidden=10, heads=2, head_size=5, ffn=14, labels=4,
        vocabulary=16, positions=30, types=2, position_offset=2,
    ),
    Shape(
        layers=1, hidden=8, heads=1, head_size=8, ffn=16, labels=1,
        vocabulary=20, positions=28, types=1, norm="pre",
    ),
)  # fmt: skip
POOL = 6  # sound inferences of a model whose logits are computed once


def config(lanes: int) -> Config:
    """Each limit is reached by a model, and few bits of a field reach beyond them."""
    return Config(lanes=lanes, tokens=3 * lanes, hidden=10, ffn=16, labels=4)


@dataclass(frozen=True)
class Sequence:
    """Token ids, types and attend bits."""

    ids: np.ndarray
    types: np.ndarray
    attend: np.ndarray

    def words(self) -> np.ndarray:
        """Words of the tokens stream."""
        return token_words(self.ids, self.types, self.attend)


class Subject:
    """A model, its program and some sound inferences.

    Attributes
    ----------
    index
        Of its table in the job file.
    stream
        The command stream.
    """

    def __init__(self, index: int, lanes: int) -> None:
        self.index, self.lanes = index, lanes
        self.config = config(lanes)
        self.model: Model = random_model(SHAPES[index // 2], index)
        self.program: Program = compile_model(
            self.model, self.config, whole_last_layer=index % 2 == 0
        )
        self.stream = self.program.stream()
        self.table = embedding_table(self.model, lanes)
        rng = np.random.default_rng(index)
        lengths = [1, lanes, lanes + 1, 2, self.program.tokens, 2 * lanes - 1]
        self._pool = tuple(self._sound(self.sequence(n, rng)) for n in lengths)

    def sequence(self, tokens: int, rng: np.random.Generator) -> Sequence:
        """A sound one of that length, with holes in the mask."""
        attend = rng.integers(0, 4, tokens) > 0
        attend[rng.integers(tokens)] = True
        return Sequence(
            rng.integers(0, self.model.shape.vocabulary, tokens),
            rng.integers(0, max(self.model.shape.types, 1), tokens),
            attend.astype(np.int64),
        )

    def logits(self, sequence: Sequence) -> tuple[int, ...]:
        """What golden computes of it."""
        answer = golden(self.model, sequence.ids, sequence.types, sequence.attend)
        return tuple(int(logit) for logit in answer)

    def _sound(self, sequence: Sequence) -> Run:
        return Run(
            model=Packets.whole(self.stream, self.lanes),
            tokens=Packets.whole(sequence.words().tobytes(), 4),
            logits=self.logits(sequence),
            table=self.index,
            row_words=self.table.shape[1] // self.lanes,
        )

    def sound(self, number: int) -> Run:
        """One of the sound inferences."""
        return self._pool[number % POOL]


@functools.cache
def subjects(lanes: int) -> tuple[Subject, ...]:
    """All models, each whole and with its last layer cut to the first row tile."""
    return tuple(Subject(index, lanes) for index in range(2 * len(SHAPES)))

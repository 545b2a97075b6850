"""The cases of the fuzzer, and the models that it plays, small enough for milliseconds."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from golden.encoder import run_batch
from golden.model import Model, Shape
from golden.random import Kind, random_model
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.machine.inference import Inference, Packets
from tb.packing import token_words
from tb.scenarios import kinds_of

SHAPES = (
    Shape(1, 8, 2, 4, 12, 2, vocabulary=20, positions=32, types=2),
    Shape(1, 6, 1, 5, 9, 3, 11, 27, types=0, norm="pre", embedding_norm=False, pooling="mean"),
    Shape(2, 10, 2, 5, 14, 4, vocabulary=16, positions=30, types=2, position_offset=2),
    Shape(1, 8, 1, 8, 16, 1, vocabulary=20, positions=28, types=1, norm="pre"),
    Shape(1, 8, 2, 4, 12, 2, vocabulary=20, positions=32, types=2, pooling="none"),
)
PATIENCE = 2_500
"""Cycles without progress that count as a hang; no row or pause of a case is that long."""
LONGEST = 200_000
"""Cycles that no run of a case takes."""
OFTEN = {"biased": 3, "windowed": 5, "rms": 4, "gated": 7, "rotary": 4}
"""Of that many subjects one lacks what the hardware has."""
POOL = 10  # sound inferences of a model whose logits are computed once


def config(lanes: int, columns: int | None = None, **mechanisms: Any) -> Config:
    """Each limit is reached by a model, and few bits of a field reach beyond them."""
    limits: dict[str, Any] = {"tokens": 6 * lanes, "hidden": 10, "ffn": 16, "labels": 4}
    return Config(lanes=lanes, columns=columns, **limits, **mechanisms)


@dataclass(frozen=True, kw_only=True)
class Run(Inference):
    """One inference, good or bad.

    subject
        Whose model is played.
    logits
        What golden computes where these very streams are a sound inference; None for others.
    behind
        What golden computes of the packets that stand behind the first ones in both streams.
    others
        Codes that are right for this run besides those of its streams.
    """

    subject: Subject = field(compare=False, repr=False)
    logits: tuple[int, ...] | None = None
    behind: tuple[int, ...] | None = None
    others: frozenset[Error] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Case:
    """What is played from one reset on."""

    number: int
    kind: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Sequence:
    """Token ids, types and attend bits; of a batch, with the lengths of its sequences."""

    ids: np.ndarray
    types: np.ndarray
    attend: np.ndarray
    lengths: tuple[int, ...] | None = None

    def words(self) -> np.ndarray:
        """Words of the tokens stream."""
        return token_words(self.ids, self.types, self.attend, self.lengths)


class Subject:
    """A model, its program and some sound inferences.

    index
        Its place among the subjects.
    stream
        The command stream.
    """

    def __init__(self, index: int, limits: Config) -> None:
        self.index, self.config, lanes = index, limits, limits.lanes
        self.lanes, self.width = lanes, limits.stream_width
        shape = SHAPES[index // 2]
        may = kinds_of(shape, limits)
        kinds = {name: may[name] and index % n > 0 for name, n in OFTEN.items()}
        kinds["precise"] = limits.precise and index % 3 < 2
        self.model: Model = random_model(shape, index, Kind(**kinds).fitting(shape))
        whole = index % 2 == 0
        self.program: Program = compile_model(self.model, limits, whole_last_layer=whole)
        self.stream = self.program.stream()
        self.table = embedding_table(self.model, lanes)
        rng = np.random.default_rng(index)
        lengths = [1, lanes, lanes + 1, 2, self.program.tokens, 2 * lanes - 1]
        found = [self.sequence(min(n, self.program.tokens), rng) for n in lengths]
        found += [self.batch([min(lanes + 1, self.program.tokens), 1], rng)]
        found += [self.batch([1] * self.program.row_tiles, rng)]
        found += [self.batch(self.mixed(rng), rng) for _ in range(POOL - len(found))]
        self._pool = tuple(self._sound(one) for one in found)

    def mixed(self, rng: np.random.Generator) -> list[int]:
        """Lengths of a batch that fills the token memory, or a part of it."""
        lengths, left = [], int(rng.integers(1, self.program.row_tiles + 1))
        while left:
            tokens = int(rng.integers(1, min(self.program.tokens, left * self.lanes) + 1))
            lengths.append(tokens)
            left -= -(-tokens // self.lanes)
        return lengths

    def batch(self, lengths: list[int], rng: np.random.Generator) -> Sequence:
        """Sound sequences of these lengths, one after the other."""
        parts = [self.sequence(tokens, rng) for tokens in lengths]
        ids, types, attend = (
            np.concatenate(arrays) for arrays in zip(*((p.ids, p.types, p.attend) for p in parts))
        )
        return Sequence(ids, types, attend, tuple(lengths))

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
        parts = sequence.ids, sequence.types, sequence.attend
        answer = run_batch(self.model, *parts, sequence.lengths or (len(sequence.ids),))
        return tuple(int(logit) for logit in answer.reshape(-1))

    def _sound(self, sequence: Sequence) -> Run:
        return Run(
            subject=self,
            model=Packets.whole(self.stream, self.width),
            tokens=Packets.whole(sequence.words().tobytes(), 4),
            logits=self.logits(sequence),
            table=self.table,
            row_latency=1,
            patience=PATIENCE,
            longest=LONGEST,
            row_words=self.table.shape[1] // self.lanes,
        )

    def sound(self, number: int) -> Run:
        """One of the sound inferences."""
        return self._pool[number % POOL]


@functools.cache
def subjects(limits: Config) -> tuple[Subject, ...]:
    """All models, each whole and with its last layer cut to the first row tile."""
    return tuple(Subject(index, limits) for index in range(2 * len(SHAPES)))

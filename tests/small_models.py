"""Small models that differ in all that a shape can, and sound sequences of them.

For clients that nobody here wrote: what they send is made by docs/architecture.md, not by tb/.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from golden.encoder import run as golden
from golden.model import Model, Shape
from golden.random import random_model
from rtl.compile.image import Image
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import Config

SHAPES = (
    Shape(
        layers=1, hidden=8, heads=2, head_size=4, ffn=12, labels=3,
        vocabulary=20, positions=20, types=2,
    ),
    Shape(
        layers=1, hidden=6, heads=1, head_size=5, ffn=9, labels=2,
        vocabulary=11, positions=20, types=0, norm="pre", embedding_norm=False, pooling="mean",
    ),
    Shape(
        layers=1, hidden=8, heads=2, head_size=4, ffn=12, labels=2,
        vocabulary=20, positions=20, types=2, pooling="none",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class SmallModel:
    """One of them, compiled for a configuration."""

    number: int
    config: Config

    @cached_property
    def model(self) -> Model:
        return random_model(SHAPES[self.number], self.number)

    @cached_property
    def program(self) -> Program:
        return compile_model(self.model, self.config)

    @cached_property
    def table(self) -> np.ndarray:
        """The rows of the embedding."""
        return embedding_table(self.model, self.config.lanes)

    @cached_property
    def image(self) -> Image:
        stream, rows = self.program.stream(), self.table.tobytes()
        return Image(stream=stream, rows=rows, row_bytes=self.table[0].nbytes)

    def sequence(self, tokens: int) -> tuple[Any, Any, Any]:
        """ids, types and attend bits."""
        draw = np.random.default_rng([self.number, tokens])
        shape = self.model.shape
        ids = draw.integers(0, shape.vocabulary, tokens)
        types = draw.integers(0, max(shape.types, 1), tokens)
        return ids, types, np.r_[1, draw.integers(0, 2, tokens - 1)]

    def words(self, tokens: int) -> list[int]:
        """The sequence on the tokens stream."""
        ids, types, attend = self.sequence(tokens)
        return (ids | types << 24 | attend << 25).tolist()

    def logits(self, tokens: int) -> list[int]:
        """golden's of it."""
        return [int(logit) for logit in golden(self.model, *self.sequence(tokens)).reshape(-1)]


def small_models(config: Config) -> tuple[SmallModel, ...]:
    """The first two, which give a sequence its logits; the third gives every token some."""
    return tuple(SmallModel(number, config) for number in range(2))

"""The small models of all tests: every kind of encoder that a shape can describe, by name.

Those of SMALL are played by benches; the others are corners that need no hardware.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from golden.encoder import run as golden
from golden.model import Model, Shape
from golden.random import Kind, random_model
from rtl.compile.image import Image
from rtl.compile.program import Program, compile_model, embedding_table
from rtl.interface.config import Config
from sim.machine.inference import Inference, Loaded
from tb import scenarios
from tb.scenarios import kinds_of

#: The families of encoders at their real size; vocabularies are cut, they only lengthen a table.
FAMILIES = {
    "bert-tiny": Shape(2, 128, 2, 64, 512, 2, vocabulary=600, positions=512, types=2),
    "no-pooler": Shape(4, 256, 4, 64, 1024, 3, 300, 130, types=2, position_offset=2),
    "pre-norm": Shape(
        3, 128, 4, 32, 256, 2, 200, 128, types=0, norm="pre", embedding_norm=False, pooling="mean"
    ),
    "three-heads": Shape(2, 96, 3, 32, 200, 5, vocabulary=150, positions=100, types=1),
}
#: The same structures with odd sizes, small enough for Icarus.
SMALL = scenarios.SMALL | {
    "bert-tiny": Shape(2, 12, 2, 6, 24, 2, vocabulary=30, positions=40, types=2),
    "no-pooler": Shape(1, 10, 2, 5, 14, 3, 20, 34, types=2, position_offset=2),
    "pre-norm-embedding-norm": Shape(2, 8, 2, 4, 17, 1, 20, 32, types=1, norm="pre"),
    "post-norm-mean": Shape(1, 7, 1, 9, 5, 4, 20, 30, types=2, pooling="mean"),
    "shared-keys": Shape(2, 10, 4, 2, 9, 3, 20, 30, types=1, kv_heads=2),
    "every-token": Shape(1, 10, 2, 5, 14, 5, 20, 34, types=2, pooling="none"),
    "every-token-pre-norm": Shape(2, 8, 1, 4, 9, 1, 20, 32, types=1, norm="pre", pooling="none"),
    "factorised": Shape(2, 11, 2, 4, 13, 2, vocabulary=20, positions=32, types=2),
    "factorised-one-layer": Shape(1, 9, 3, 2, 10, 3, vocabulary=20, positions=32, types=1),
}
SHAPES: dict[str, Shape] = SMALL | {
    "one": Shape(1, 1, 1, 1, 1, 1, vocabulary=20, positions=30, types=0),
    "factorised-as-wide": replace(SMALL["post-norm-mean"], hidden=11, heads=3, head_size=3),
    "factorised-every-token": replace(SMALL["every-token"], types=0),
}
#: Corners of the array alone.
CORNERS: dict[str, Shape] = {
    # Sizes that are a multiple of no number of lanes, and heads as wide as most lanes.
    "odd": Shape(
        2, 33, 3, 7, 50, 5, vocabulary=20, positions=30, types=2, norm="pre", embedding_norm=False,
        pooling="mean",
    ),
    "wide-heads": Shape(1, 96, 3, 32, 200, 5, vocabulary=20, positions=30, types=1, norm="pre"),
    "one-head": Shape(1, 20, 1, 9, 18, 6, vocabulary=20, positions=30, types=2, norm="pre"),
    "pairs": Shape(2, 6, 3, 2, 9, 3, vocabulary=20, positions=30, types=2, pooling="mean"),
    # Heads of two words of V and of three: one ends with a group of 4, one goes on in the next.
    "two-words-a-head": Shape(1, 18, 3, 6, 11, 2, vocabulary=20, positions=40, types=2),
    "three-words-a-head": Shape(1, 27, 3, 9, 11, 2, vocabulary=20, positions=40, types=2),
}  # fmt: skip
#: BERT-Tiny at its own size, whose sums are those of real models; too large for a table of cases.
REAL = "bert-tiny-real"
#: What a random model may have beside its shape: arguments of `model` and of `golden.random.Kind`.
KINDS: dict[str, dict[str, bool]] = {
    "plain": {},
    "precise": {"precise": True},
    "biased": {"biased": True},
    "windowed": {"windowed": True},
    "rms": {"rms": True},
    "gated": {"gated": True},
    "rotary": {"rotary": True},
    "norms": {"first_norm": False, "head_norm": True},
}
#: All together, and each.
GOLDEN_KINDS = {
    "all": {"precise": True, "windowed": True, "rotary": True, "gated": True, "rms": True}
    | {"first_norm": False, "head_norm": True},
    **KINDS,
}
#: Channels of the embeddings that are factorised.
EMBEDDINGS = {
    "factorised": 5,
    "factorised-one-layer": 9,
    "factorised-as-wide": 11,
    "factorised-every-token": 1,
}


def family(name: str, shape: Shape, seed: int = 1, **kinds: bool) -> Model:
    """A random model of this family: ReLU where pre-norm, one layer of head where no pooler.

    kinds: those of `golden.random.Kind`.
    """
    model = scenarios.family(name, shape, seed, EMBEDDINGS.get(name, 0), **kinds)
    if name in ("no-pooler", "post-norm-mean", "every-token") and model.head_norm is None:
        model = replace(model, head=model.head[-1:])
    return model


def shape(name: str, **changes: Any) -> Shape:
    """The shape of that name, with other sizes where they matter."""
    found = FAMILIES["bert-tiny"] if name == REAL else (SHAPES | CORNERS)[name]
    return replace(found, **changes)


def model(name: str, seed: int = 1, **options: Any) -> Model:
    """A random model of that name; its kind of activation and head are the name's as well.

    options: those of `golden.random.Kind` as far as the shape has them, and changes of the shape.
    """
    kinds = {field.name: options.pop(field.name) for field in fields(Kind) if field.name in options}
    its = shape(name, **options)
    if name in SMALL:
        return family(name, its, seed, **kinds)
    return random_model(its, seed, Kind(EMBEDDINGS.get(name, 0), **kinds).fitting(its))


@dataclass(frozen=True)
class Compiled:
    """A model for a configuration, and sound sequences of it.

    For clients that nobody here wrote: what they send is made by docs/architecture.md, not by tb/.
    labels: None for those of the zoo.
    """

    name: str
    config: Config
    labels: int | None = None

    @cached_property
    def model(self) -> Model:
        changes = {} if self.labels is None else {"labels": self.labels}
        kinds = kinds_of(shape(self.name), self.config)
        return model(self.name, len(self.name), **kinds, **changes)

    @cached_property
    def program(self) -> Program:
        return compile_model(self.model, self.config)

    @cached_property
    def table(self) -> np.ndarray:
        """The rows of the embedding."""
        return embedding_table(self.model, self.config.lanes)

    @cached_property
    def loaded(self) -> Loaded:
        return Loaded(self.program, self.table)

    def inference(self, tokens: int, **others: Any) -> Inference:
        """Of the sequence, on the machine."""
        return self.loaded.inference(*self.sequence(tokens), **others)

    @cached_property
    def image(self) -> Image:
        stream, rows = self.program.stream(), self.table.tobytes()
        return Image(stream=stream, rows=rows, row_bytes=self.table[0].nbytes)

    def sequence(self, tokens: int) -> tuple[Any, Any, Any]:
        """ids, types and attend bits."""
        draw = np.random.default_rng([len(self.name), tokens])
        sizes = self.model.shape
        ids = draw.integers(0, sizes.vocabulary, tokens)
        types = draw.integers(0, max(sizes.types, 1), tokens)
        return ids, types, np.r_[1, draw.integers(0, 2, tokens - 1)]

    def words(self, tokens: int) -> list[int]:
        """The sequence on the tokens stream."""
        ids, types, attend = self.sequence(tokens)
        return (ids | types << 24 | attend << 25).tolist()

    def logits(self, tokens: int) -> list[int]:
        """golden's of it."""
        return [int(logit) for logit in golden(self.model, *self.sequence(tokens)).reshape(-1)]

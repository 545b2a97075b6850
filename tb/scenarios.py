"""Models and sequences for the bench of the accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from golden.model import Model, Shape
from golden.random import Kind, random_model
from rtl.compile.program import Program
from rtl.interface.config import Config, ceil_div

#: By family an encoder of odd sizes, small enough for Icarus.
SMALL = {
    "pre-norm": Shape(
        1, 9, 1, 4, 7, 2, 20, 32, types=0, norm="pre", embedding_norm=False, pooling="mean"
    ),
    "three-heads": Shape(1, 12, 3, 3, 25, 5, vocabulary=25, positions=30, types=1),
}

#: Holds every small model.
SMALL_LIMITS: dict[str, Any] = {"tokens": 24, "hidden": 32, "ffn": 32, "labels": 8}

RELU = np.maximum(np.arange(256).astype(np.uint8).view(np.int8), np.int8(0))


def family(name: str, shape: Shape, seed: int = 1, embedding: int = 0, **kinds: bool) -> Model:
    """A random model of this family: ReLU where pre-norm.

    embedding: channels of factorised embeddings; kinds: those of `golden.random.Kind`.
    """
    model = random_model(shape, seed, Kind(embedding, **kinds).fitting(shape))
    if name.startswith("pre-norm"):
        layers = []
        for layer in model.layers:
            ffn, relu = layer.ffn, replace(layer.ffn.activated, table=RELU)
            ffn = replace(ffn, up=relu) if ffn.gate is None else replace(ffn, gate=relu)
            layers.append(replace(layer, ffn=ffn))
        model = replace(model, layers=tuple(layers))
    return model


def sequence(model: Model, tokens: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random ids, types and attend bits with holes; at least one token attends."""
    rng = np.random.default_rng([tokens, seed])
    ids = rng.integers(0, model.shape.vocabulary, tokens)
    types = np.sort(rng.integers(0, max(model.shape.types, 1), tokens))
    attend = rng.random(tokens) < 0.8
    attend[rng.integers(tokens)] = True
    return ids, types, attend.astype(int)


def sequences(
    model: Model, lengths: Sequence[int], seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Those of a batch, one after the other: random ids, types and attend bits."""
    parts = [sequence(model, tokens, seed + place) for place, tokens in enumerate(lengths)]
    ids, types, attend = (np.concatenate(part) for part in zip(*parts))
    return ids, types, attend


def batch_lengths(program: Program, seed: int = 1) -> list[int]:
    """Mixed lengths that fill a batch: one token, a row tile and about, whatever is left."""
    rng, n = np.random.default_rng(seed), program.config.lanes
    found, left = [], program.row_tiles
    while left:
        wanted = rng.choice([1, n - 1, n, n + 1, int(rng.integers(1, program.tokens + 1))])
        tokens = int(min(wanted, left * n, program.tokens))
        found.append(tokens)
        left -= ceil_div(tokens, n)
    return found


def kinds_of(shape: Shape, config: Config) -> dict[str, bool]:
    """What a random model of this shape may have on the hardware; arguments of `family`."""
    return {
        "precise": config.precise,
        "biased": shape.heads <= config.bias_heads,
        "windowed": True,
        "rms": True,
        "gated": config.gated,
        "rotary": shape.head_size <= config.rotary_pairs,
    }

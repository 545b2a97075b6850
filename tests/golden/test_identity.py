"""Which model it is: every integer counts, and nothing else."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from golden.identity import identity_of
from golden.model import Shape
from golden.random import Kind, random_model
from golden.store import load, save
from tests import zoo

SHAPES = (
    zoo.shape("bert-tiny", hidden=6, ffn=7, vocabulary=9),
    zoo.shape("pre-norm", hidden=5, position_offset=1),
)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a model has an array or a number that may be another one."""
    if is_dataclass(value):
        return [p for f in fields(value) for p in leaves(getattr(value, f.name), (*path, f.name))]
    if isinstance(value, tuple):
        return [p for i, item in enumerate(value) for p in leaves(item, (*path, i))]
    return [] if value is None or "shape" in path else [path]


def changed(value: Any, path: tuple[Any, ...], rng: Random) -> Any:
    """The value with one integer at `path` moved by one, or a bool inverted."""
    if not path:
        if isinstance(value, np.ndarray):
            other = value.copy()
            at = rng.randrange(value.size)
            other.flat[at] = int(value.flat[at]) + (1 if value.flat[at] <= 0 else -1)
            return other
        return not value if isinstance(value, bool) else value + (1 if value < 3 else -1)
    head, *rest = path
    if isinstance(value, tuple):
        return (*value[:head], changed(value[head], tuple(rest), rng), *value[head + 1 :])
    return replace(value, **{head: changed(getattr(value, head), tuple(rest), rng)})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", SHAPES)
def test_every_integer_counts(shape: Shape, seed: int) -> None:
    odd = bool(seed & 1)
    model = random_model(shape, seed, Kind(biased=odd, windowed=seed > 1, rotary=not odd))
    rng = Random(seed)
    seen, refused = {identity_of(model)}, []
    every = leaves(model)
    for path in every:
        try:
            other = changed(model, path, rng)
        except ValueError:  # no such model may be
            refused.append(path)
            continue
        seen.add(identity_of(other))
    assert len(seen) == 1 + len(every) - len(refused)
    assert len(refused) < len(every) / 4, refused


def test_the_shape_counts() -> None:
    """Where the integers are the same ones: the heads are cut otherwise, positions begin later."""
    one = random_model(SHAPES[0], 1)
    for change in ({"heads": 3, "head_size": 4}, {"position_offset": 1}):
        assert identity_of(replace(one, shape=replace(one.shape, **change))) != identity_of(one)


def test_nothing_else_counts(tmp_path: Path) -> None:
    """What lies beside the integers, where they lie, and how an array is laid out."""
    for seed, shape in enumerate(SHAPES):
        model = random_model(shape, seed)
        save(model, tmp_path, {"labels": ["a"], "scale": seed})
        back, _ = load(tmp_path)
        assert identity_of(back) == identity_of(model) == identity_of(random_model(shape, seed))
        turned = np.asfortranarray(model.embedding.token)
        other = replace(model, embedding=replace(model.embedding, token=turned))
        assert identity_of(other) == identity_of(model)
        assert len(identity_of(model)) == 8


@pytest.mark.parametrize("kind", zoo.GOLDEN_KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_a_hash_of_the_files(shape: Shape, kind: str, tmp_path: Path) -> None:
    """As its docstring says, from what is on disk: images of today meet programs of tomorrow."""
    model = random_model(shape, 0, Kind(**zoo.GOLDEN_KINDS[kind]).fitting(shape))
    save(model, tmp_path, {})
    values = json.loads((tmp_path / "quantized.json").read_text())["model"]
    with np.load(tmp_path / "quantized.npz") as arrays:
        parts = {name: f"{name} {value}\n".encode() for name, value in values.items()}
        for name, array in arrays.items():
            parts[name] = f"{name} {array.dtype} {array.shape}\n".encode() + array.tobytes()
    text = b"".join(parts[name] for name in sorted(parts))
    assert identity_of(model) == sha256(text).digest()[:8]

"""Which model it is: every integer counts, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from golden.identity import identity_of
from golden.model import Shape
from golden.random import Kind, random_model
from golden.store import save
from tests import zoo

SHAPES = (
    zoo.shape("bert-tiny", hidden=6, ffn=7, vocabulary=9),
    zoo.shape("pre-norm", hidden=5, position_offset=1),
)


def test_nothing_but_integers_counts() -> None:
    """Not how an array is laid out."""
    model = random_model(SHAPES[0], 1)
    turned = np.asfortranarray(model.embedding.token)
    other = replace(model, embedding=replace(model.embedding, token=turned))
    assert identity_of(other) == identity_of(model)


@pytest.mark.parametrize("kind", zoo.GOLDEN_KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_a_hash_of_the_files(shape: Shape, kind: str, tmp_path: Path) -> None:
    """As its docstring says, from what is on disk: images of today meet programs of tomorrow."""
    model = random_model(shape, 0, Kind(**zoo.GOLDEN_KINDS[kind]).fitting(shape))
    save(model, tmp_path, {"scale": 0.5})
    values = json.loads((tmp_path / "quantized.json").read_text())["model"]
    with np.load(tmp_path / "quantized.npz") as arrays:
        parts = {name: f"{name} {value}\n".encode() for name, value in values.items()}
        for name, array in arrays.items():
            parts[name] = f"{name} {array.dtype} {array.shape}\n".encode() + array.tobytes()
    text = b"".join(parts[name] for name in sorted(parts))
    assert identity_of(model) == sha256(text).digest()[:8]

"""Models and vectors of a real review for all benches."""

from pathlib import Path

import pytest

from golden import store
from golden.random import random_model
from quant.calibrate import DEFAULT_MODEL, ensure
from sim import vectors
from tb.generate.folder import Bench, write_bench
from tests import zoo
from tests.quant.tiny import info_of
from tests.tb.plain import Benches, bench


@pytest.fixture(params=["bert-tiny", "pre-norm"])
def model_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A quantized model with the shipped checkpoint's tokenizer beside it."""
    folder, words = tmp_path / "model", (DEFAULT_MODEL / "vocab.txt").read_text(encoding="utf-8")
    shape = zoo.shape(request.param, layers=2, vocabulary=30522, positions=24)
    store.save(random_model(shape, 3), folder, info_of(shape, folder, words.splitlines()))
    return folder


@pytest.fixture(scope="session")
def real_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every unit's vectors of one review of 64 tokens on the shipped model."""
    out = tmp_path_factory.mktemp("real") / "vectors"
    arguments = ["--quantized", str(ensure()), "--out", str(out), "--samples", "1"]
    assert vectors.main([*arguments, "--tokens", "64", "--limit", "200"]) == 0
    return out


@pytest.fixture(scope="session")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Benches:
    """By the name of a unit, its bench and the folder in which it was written."""
    made: dict[str, tuple[Bench, Path]] = {}

    def written(unit: str) -> tuple[Bench, Path]:
        if unit not in made:
            made[unit] = bench(unit), tmp_path_factory.mktemp(unit) / "a bench"
            write_bench(*made[unit])
        return made[unit]

    return written

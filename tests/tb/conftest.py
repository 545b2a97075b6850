"""Vectors of a real review, cut once for all benches."""

from pathlib import Path

import pytest

from quant.calibrate import ensure
from sim import vectors
from tb.generate.folder import Bench, write_bench
from tests.tb.plain import Benches, bench


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

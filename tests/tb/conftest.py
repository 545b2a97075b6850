"""Vectors of a real review, cut once for all benches."""

from pathlib import Path

import pytest

from quant.calibrate import ensure
from sim import vectors


@pytest.fixture(scope="session")
def real_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every unit's vectors of one review of 64 tokens on the shipped model."""
    out = tmp_path_factory.mktemp("real") / "vectors"
    arguments = ["--quantized", str(ensure()), "--out", str(out), "--samples", "1"]
    assert vectors.main([*arguments, "--tokens", "64", "--limit", "200"]) == 0
    return out

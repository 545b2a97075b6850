"""The cocotb benches of the units on the generated Verilog, with Icarus at four lanes."""

from pathlib import Path

import pytest

from rtl.config import Config
from sim.simulators import run

UNITS = ("requantize", "activation", "reciprocal", "rsqrt", "softmax", "layernorm")


@pytest.mark.parametrize("unit", UNITS)
def test_icarus(unit: str) -> None:
    run(unit, "icarus", Config(lanes=4))


@pytest.mark.verilator
@pytest.mark.slow
@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("unit", UNITS)
def test_verilator(unit: str, lanes: int) -> None:
    run(unit, "verilator", Config(lanes=lanes))


@pytest.mark.parametrize("unit", UNITS)
def test_real_reviews(unit: str, real_vectors: Path) -> None:
    """Vectors of a real review on the shipped model, calibrated as a user would."""
    run(
        unit,
        "icarus",
        Config(lanes=4),
        testcases=["real_reviews"],
        env={"VECTORS": str(real_vectors)},
    )

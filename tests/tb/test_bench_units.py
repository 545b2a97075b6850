"""The cocotb benches of the units on the generated Verilog, with Icarus at four lanes."""

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

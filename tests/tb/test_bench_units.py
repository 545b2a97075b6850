"""The cocotb benches of the units on the generated Verilog, with Icarus at four lanes."""

from pathlib import Path

import pytest

from rtl.interface.config import Config
from sim.bench import run_bench
from sim.design import generated
from tests.tb.power_up import unknown
from tests.tiers import quick

UNITS = ("requantize", "activation", "softmax", "reciprocal", "rsqrt", "layernorm")


@pytest.mark.parametrize("unit", quick(UNITS, 3))
def test_icarus(unit: str, real_vectors: Path) -> None:
    """With vectors of a real review on the shipped model; registers begin with X."""
    config = Config(lanes=4)
    design = unknown(generated(unit, config))
    env = {"VECTORS": str(real_vectors)}
    passed = run_bench(design, "icarus", config, env=env, variant="power-up")
    names = {test.name.partition("/")[0] for test in passed}
    assert "real_reviews" in names
    assert len(names) > 1


@pytest.mark.parametrize("lanes", quick([8, 16, 32], 0))
@pytest.mark.parametrize("unit", ["requantize", "softmax", "layernorm"])
def test_more_lanes(unit: str, lanes: int) -> None:
    run_bench(unit, "icarus", Config(lanes=lanes, hidden=96))


@pytest.mark.parametrize("columns", quick([16, 8], 0))
def test_more_columns(columns: int) -> None:
    run_bench("matmul", "icarus", Config(lanes=4, columns=columns, hidden=96))


@pytest.mark.slow
def test_wide_operands() -> None:
    run_bench("matmul", "icarus", Config(lanes=4, hidden=96, precise=True))


@pytest.mark.parametrize(
    "simulator",
    ["icarus", pytest.param("verilator", marks=pytest.mark.slow)],
)
def test_position_bias(simulator: str) -> None:
    """Of 3 heads and 3 row tiles, neither of them a power of two; it has no real vectors."""
    config = Config(lanes=4, tokens=11, bias_heads=3)
    design = unknown(generated("position_bias", config))
    passed = run_bench(design, simulator, config, variant="power-up")
    names = {test.name.partition("/")[0] for test in passed}
    assert {"every_distance", "corners", "reset_in_the_middle"} < names


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_softmax_with_windows(simulator: str) -> None:
    config = Config(lanes=4, tokens=32, windows=True)
    design = unknown(generated("softmax", config))
    run_bench(design, simulator, config, variant="power-up")


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_layernorm_with_rms_norms(simulator: str) -> None:
    config = Config(lanes=4, tokens=32, rms_norm=True)
    passed = run_bench("layernorm", simulator, config)
    assert "rms_norms" in {test.name.partition("/")[0] for test in passed}


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_verilator(unit: str) -> None:
    run_bench(unit, "verilator", Config(lanes=8))

"""The cocotb bench of the MAC array on the generated Verilog."""

from pathlib import Path

import pytest

from rtl.interface.config import Config
from sim.bench import run_bench
from sim.design import generated
from tests.tb.power_up import unknown
from tests.tiers import quick


@pytest.mark.parametrize("dsp_macs", quick([None, 5]))
def test_icarus(dsp_macs: int | None) -> None:
    """Registers begin with X."""
    config = Config(lanes=4, dsp_macs=dsp_macs)
    run_bench(unknown(generated("matmul", config)), "icarus", config, variant="power-up")


@pytest.mark.slow
def test_real_reviews(real_vectors: Path) -> None:
    env = {"VECTORS": str(real_vectors)}
    run_bench("matmul", "verilator", Config(lanes=8), env=env)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [16, 32])
def test_more_lanes(lanes: int) -> None:
    run_bench("matmul", "verilator", Config(lanes=lanes))

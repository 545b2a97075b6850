"""A client of the accelerator that nobody here wrote, on both simulators."""

from pathlib import Path

import pytest

from rtl.interface.config import Config
from sim.bench import run_bench

BENCH = Path(__file__).with_name("bench_axi_client.py")
CONFIG = Config(lanes=4, tokens=8, hidden=16, ffn=16, labels=4)


@pytest.mark.parametrize(
    "simulator", ["icarus", pytest.param("verilator", marks=pytest.mark.verilator)]
)
def test_a_foreign_client(simulator: str) -> None:
    results = run_bench("accelerator", simulator, CONFIG, bench=BENCH)
    assert sorted(result.name.partition("/")[0] for result in results) == [
        "a_start_while_busy",
        *["inferences"] * 4,
        "interrupts",
        "resets",
    ]

"""The accelerator with DMA on a memory that nobody here wrote, on both simulators."""

from pathlib import Path

import pytest

from rtl.dma.bus import Bus
from rtl.interface.config import Config
from sim.bench import run_bench
from sim.machine.board import design_of

BENCH = Path(__file__).with_name("bench_axi_memory.py")
CONFIG = Config(lanes=4, tokens=8, hidden=16, ffn=16, labels=4)
TESTS = ["addresses", "aborts", "bad_beats", "inferences", "resets"]


@pytest.mark.slow
@pytest.mark.parametrize("data_bits", [32, 64, 256])
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_a_foreign_memory(simulator: str, data_bits: int) -> None:
    bus = Bus(data_bits=data_bits, burst=8, outstanding=4)
    results = run_bench(
        design_of(CONFIG, bus), simulator, CONFIG, bench=BENCH, variant=str(data_bits)
    )
    assert sorted(result.name for result in results) == sorted(TESTS)

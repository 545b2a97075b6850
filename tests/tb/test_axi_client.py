"""A client and a memory of the accelerator that nobody here wrote, on both simulators."""

from pathlib import Path

import pytest

from rtl.dma.bus import Bus
from rtl.generate.verilog import PLAIN
from rtl.interface.config import Config
from sim.bench import BenchError, run_bench
from sim.design import described
from sim.machine.board import design_of
from tb.scenarios import SMALL_LIMITS
from tests.damage import mutated

BENCH = Path(__file__).with_name("bench_axi_client.py")
#: As in test_bench_accelerator.py, so that one build serves both.
CONFIG = Config(lanes=4, **SMALL_LIMITS)


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_a_foreign_client(simulator: str) -> None:
    results = run_bench("accelerator", simulator, CONFIG, bench=BENCH)
    assert sorted(result.name.partition("/")[0] for result in results) == [
        "a_start_while_busy",
        *["inferences"] * 4,
        "interrupts",
        "the_c_driver",
    ]


@pytest.mark.slow
def test_a_deliberate_fault_is_seen() -> None:
    fault = ("Mux(refused, SLVERR, OKAY)", "OKAY")
    unit = mutated("axi", fault, unit="accelerator", config=CONFIG)
    design = described(unit, "accelerator", CONFIG, lowering=PLAIN)
    options = {"bench": BENCH, "testcases": ["a_start_while_busy"], "variant": "client"}
    with pytest.raises(BenchError, match=r"1 failed\na_start_while_busy: "):
        run_bench(design, "icarus", CONFIG, **options)


@pytest.mark.slow
@pytest.mark.parametrize("data_bits", [32, 64, 256])
@pytest.mark.parametrize("simulator", ["icarus", "verilator"])
def test_a_foreign_memory(simulator: str, data_bits: int) -> None:
    """Of the accelerator with DMA."""
    config = Config(lanes=4, tokens=8, hidden=16, ffn=16, labels=4)
    design = design_of(config, Bus(data_bits=data_bits, burst=8, outstanding=4))
    bench = BENCH.with_name("bench_axi_memory.py")
    results = run_bench(design, simulator, config, bench=bench, variant=str(data_bits))
    names = ["aborts", "bad_beats", "inferences", "resets"]
    assert sorted(result.name for result in results) == names

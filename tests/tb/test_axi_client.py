"""A client of the accelerator that nobody here wrote, on both simulators."""

from pathlib import Path

import pytest

from rtl.generate.verilog import PLAIN
from rtl.interface.config import Config
from sim.bench import BenchError, run_bench
from sim.design import described
from tb.scenarios import SMALL_LIMITS
from tests.damage import mutated

BENCH = Path(__file__).with_name("bench_axi_client.py")
#: As in test_bench_accelerator.py, so that one build serves both.
CONFIG = Config(lanes=4, **SMALL_LIMITS)


@pytest.mark.thorough
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
        "the_c_driver",
    ]


#: Part of rtl/, what it says, what the fault says, and a test of the client that must fail.
FAULTS = {
    "a start while busy says OKAY": (
        "axi", "Mux(refused, SLVERR, OKAY)", "OKAY", "a_start_while_busy",
    ),
    "an acknowledgement does nothing": (
        "axi", "with m.Elif(acknowledge | self.start):", "with m.Elif(self.start):", "interrupts",
    ),
    "the packet of logits ends early": (
        "accelerator", "label_last.eq(left == 1)", "label_last.eq(left == 2)", "inferences",
    ),
    "the limits are those of another": (
        "accelerator", "value.ffn.eq(config.ffn)", "value.ffn.eq(config.hidden + 1)",
        "resets",
    ),
}  # fmt: skip
QUICK = "a start while busy says OKAY"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == QUICK else [pytest.mark.slow]) for n in FAULTS]
)
def test_a_deliberate_fault_is_seen(name: str) -> None:
    part, old, new, test = FAULTS[name]
    unit = mutated(part, (old, new), unit="accelerator", config=CONFIG)
    variant = f"client-{list(FAULTS).index(name)}"
    with pytest.raises(BenchError, match=test):
        run_bench(
            described(unit, "accelerator", CONFIG, lowering=PLAIN),
            "icarus",
            CONFIG,
            bench=BENCH,
            testcases=[test],
            variant=variant,
        )

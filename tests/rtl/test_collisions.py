"""No unit uses a word that it reads from a memory in the very cycle in which it is written.

Block RAMs of different makes return different things then. Here each memory returns the inverse of
the old word, and the benches must not notice.
"""

import pytest

from rtl.generate.verilog import PLAIN
from rtl.interface.config import Config
from sim.bench import run_bench
from sim.design import described
from tests.damage import mutated
from tests.tiers import quick

CONFIG = Config(lanes=4, tokens=32, hidden=32, ffn=48)
INVERTED = (
    ("import Module, Shape", "import Cat, Module, Shape"),
    ("pipeline import delay", "pipeline import delay, register"),
    (
        'self.read.data.eq(delay(m, read.data, READ_LATENCY - 1, "output"))',
        """self.read.data.eq(register(m, Cat(read.data) ^ register(
            m, self.write.en & (self.write.address == self.read.address), "collides"
        ).replicate(Shape.cast(self.shape).width), "output"))""",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "tests"),
    quick([("softmax", ()), ("activation", ()), ("layernorm", ()), ("accelerator", ("small",))]),
)
def test_no_unit_uses_a_collision(unit: str, tests: tuple[str, ...]) -> None:
    component = mutated("memory", *INVERTED, unit=unit, config=CONFIG)
    design = described(component, unit, CONFIG, lowering=PLAIN)
    run_bench(design, "icarus", variant="collisions", testcases=tests)

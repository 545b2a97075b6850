"""No unit uses a word that it reads from a memory in the very cycle in which it is written.

Block RAMs of different makes return different things then. Here each memory returns the inverse of
the old word, and the benches must not notice.
"""

from pathlib import Path

import pytest

from rtl.compile.program import compile_model
from rtl.generate.verilog import PLAIN
from rtl.interface.config import Config
from sim.accelerator import play
from sim.bench import run_bench
from sim.design import Design, described
from tests.damage import mutated
from tests.sim.played import right
from tests.tb.test_bench_accelerator import work
from tests.zoo import SMALL, family

CONFIG = Config(lanes=4, tokens=32, hidden=32, ffn=48)
INVERTED = (
    ("import Module, ShapeLike", "import Cat, Module, Shape, ShapeLike"),
    ("pipeline import delay", "pipeline import delay, register"),
    (
        'self.read.data.eq(delay(m, read.data, READ_LATENCY - 1, "output"))',
        """self.read.data.eq(register(m, Cat(read.data) ^ register(
            m, self.write.en & (self.write.address == self.read.address), "collides"
        ).replicate(Shape.cast(self.shape).width), "output"))""",
    ),
)


def changed(unit: str) -> Design:
    component = mutated("memory", *INVERTED, unit=unit, config=CONFIG)
    return described(component, unit, CONFIG, lowering=PLAIN)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["softmax", "activation", "layernorm"])
def test_no_unit_uses_a_collision(unit: str) -> None:
    run_bench(changed(unit), "icarus", variant="collisions")


@pytest.mark.slow
def test_nor_does_the_accelerator(tmp_path: Path) -> None:
    model = family("pre-norm", SMALL["pre-norm"])
    program = compile_model(model, CONFIG)
    given = [one for one, *_ in work(model, program, [7, 1], 1)]
    design = changed("accelerator")
    for one in play(design, "icarus", CONFIG, given, tmp_path, variant="collisions"):
        right(one.result, program, model)

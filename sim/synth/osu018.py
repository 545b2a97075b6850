"""Area and clock in standard cells: OSU's 0.18 um library, Yosys and OpenSTA; memories apart."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cli.files import locked
from cli.progress import stage

from rtl.generate.verilog import instances
from sim.design import Design
from sim.synth.ecp5 import FOLDER
from sim.synth.tools import SynthesisError, run_tool

TARGET = "osu018"
#: Where Debian's package qflow-tech-osu018 puts the library.
LIBRARY = Path("/usr/share/qflow/tech/osu018")
#: The ports of memories, as cells of one bit.
MEMORIES = Path(__file__).with_name("memories.lib")
#: A gate equivalent is the smallest NAND of two inputs.
GATE = "NAND2X1"
#: Delays in a slow corner (slow silicon, 1.62 V, 125 degrees) by those of the library's only one
#: (typical, 1.8 V, 25 degrees): assumed.
SLOW = 1.7
#: Cells that nothing may be mapped to: of a clock tree, of a bus, and a latch.
UNUSED = ("CLKBUF1", "CLKBUF2", "CLKBUF3", "TBUFX1", "TBUFX2", "LATCH")
#: Modules down to this depth are mapped one by one, deeper ones with the one that holds them.
DEPTH = 2

#: ABC's view of what surrounds a module.
CONSTRAINTS = "set_driving_cell BUFX4\nset_load 0.05 [all_outputs]\n"

_AREA = re.compile(r"(cell \((\w+)\) \{\s*(?:cell_footprint : \w+;\s*)?area : )([\d.]+)")
_SIZE = re.compile(r"^MACRO (\w+)\b.*?^\s*SIZE\s+([\d.]+) BY ([\d.]+)", re.MULTILINE | re.DOTALL)
#: What a memory that is written begins with, word by word; reading it takes Yosys a minute.
_BEGINS = re.compile(r"^    (?:ram|storage)\[\d+\] = \d+'h0+;\n", re.MULTILINE)
_SLACK = re.compile(r"^\s+(-?[\d.]+)\s+slack", re.MULTILINE)

# A chip loads nothing at power-up, so nothing may be concluded from what registers begin with.
_COARSE = """\
read_verilog {top}.v
hierarchy -check -top {top}
proc
setattr -unset init w:*
setattr -mod -set keep_hierarchy 1 {modules}
flatten
opt -full
memory -nomap -norom
opt_clean
write_json coarse.json"""

_MAPPED = """\
read_liberty -lib cells.lib
read_liberty -lib memories.lib
read_json coarse.json
hierarchy -check -top {top}
proc
synth -booth -noabc -top {top}
setattr -unset init w:*
dfflibmap -liberty cells.lib
opt
abc -liberty cells.lib -constr abc.constr -D {period:.0f} {unused}
opt_clean -purge
delete t:$scopeinfo
check -mapped -assert
tee -o area.json stat -json -top {top} -liberty cells.lib -liberty memories.lib
setattr -mod -unset keep_hierarchy *
flatten
delete t:$scopeinfo
splitnets -ports
opt_clean -purge
write_verilog -noattr -noexpr netlist.v"""

# Wires have no length, the clock reaches all at once, and ports bound no path.
_TIMING = """\
read_liberty cells.lib
read_liberty memories.lib
read_verilog netlist.v
link_design {top}
create_clock -period {period} clk
set_input_transition 0.1 [all_inputs]
report_checks -path_delay max
"""


def library_file(name: str) -> str:
    """Text of a file of the library; SynthesisError where it is not installed."""
    try:
        return (LIBRARY / name).read_text()
    except FileNotFoundError:
        what = f"the cells of the target {TARGET} are not installed ({LIBRARY / name} is missing)"
        do = "run `apt-get install qflow-tech-osu018 opensta` first"
        raise SynthesisError(f"{what}: {do}") from None


def areas() -> dict[str, float]:
    """Square micrometres of each cell in the layout, by the LEF; three differ in the library."""
    return {
        name: round(float(width) * float(height), 3)
        for name, width, height in _SIZE.findall(library_file("osu018_stdcells.lef"))
    }


def liberty() -> str:
    """The library with the areas of its layout."""
    size, text = areas(), library_file("osu018_stdcells.lib")
    return _AREA.sub(lambda found: f"{found[1]}{size[found[2]]:g}", text)


def synthesise(design: Design, *, freq: float = 100.0) -> dict[str, Any]:
    """Area and clock of `design`; gates are sized for `freq` MHz in the slow corner.

    ``kge`` and ``mm2`` are of all cells, without RAM and ROM; ``typical_mhz`` and ``slow_mhz`` are
    the clocks of the slowest path from register to register in two corners, None where there is no
    such path. SynthesisError where library or tools are not installed, or a tool refused the
    design.
    """
    cells, top = liberty(), design.name
    paths = instances(design.verilog, top)
    modules = {module for path, module in paths.items() if len(path) <= DEPTH}
    folder = FOLDER / f"{top}-{design.configuration}-{TARGET}"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        stage(f"synthesis of {top} for {TARGET} (log: {folder / 'yosys.log'})")
        made = {f"{top}.v": _BEGINS.sub("", design.verilog), "cells.lib": cells}
        made |= {"memories.lib": MEMORIES.read_text(), "abc.constr": CONSTRAINTS}
        for name, text in made.items():
            (folder / name).write_text(text)
        _yosys(_COARSE.format(top=top, modules=" ".join(sorted(modules))), folder)
        netlist = json.loads((folder / "coarse.json").read_text())
        count = Counter(module for module in paths.values() if module in modules)
        bits = take_out_memories(netlist["modules"], count)
        (folder / "coarse.json").write_text(json.dumps(netlist))
        unused = " ".join(f"-dont_use {cell}" for cell in UNUSED)
        _yosys(_MAPPED.format(top=top, period=1e6 / freq / SLOW, unused=unused), folder)
        area = json.loads((folder / "area.json").read_text())["design"]["area"]
        stage("timing by OpenSTA")
        delay = _slowest_path(top, 1e3 / freq, folder)
    return {
        "target": TARGET,
        "unit": top,
        "configuration": json.loads(design.sheet)["configuration"],
        "kge": round(area / areas()[GATE] / 1e3, 3),
        "mm2": round(area / 1e6, 4),
        "memory_bits": bits,
        "typical_mhz": None if delay is None else round(1e3 / delay, 1),
        "slow_mhz": None if delay is None else round(1e3 / delay / SLOW, 1),
    }


def _yosys(script: str, folder: Path) -> None:
    run_tool("yosys", "-q", "-p", "; ".join(script.splitlines()), folder=folder)


def take_out_memories(modules: Mapping[str, Any], count: Mapping[str, int]) -> dict[str, int]:
    """Replace each memory that is read by a clock by its ports: on a chip it is a macro.

    Others are small and become flip-flops. Gives the bits of RAM, ROM and register files.

    `modules` of Yosys' JSON, with `$mem_v2` cells, are changed in place; `count` says how often
    each stands in the design.
    """
    bits = {"RAM": 0, "ROM": 0, "register file": 0}
    for module, found in modules.items():
        cells: dict[str, Any] = {}
        for name, cell in found["cells"].items():
            if cell["type"] != "$mem_v2":
                cells[name] = cell
                continue
            clocked, writes, size, width = (
                int(cell["parameters"][parameter], 2)
                for parameter in ("RD_CLK_ENABLE", "WR_PORTS", "SIZE", "WIDTH")
            )
            kind = "ROM" if not writes else "RAM" if clocked else "register file"
            bits[kind] += size * width * count[module]
            if clocked:
                cells |= {f"{name}.{n}": port for n, port in enumerate(_ports(cell))}
            else:
                cells[name] = cell
        found["cells"] = cells
    return bits


def _ports(memory: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A cell for each bit of a memory's ports; bits that are written together have one enable."""
    pins = memory["connections"]
    enables = list(dict.fromkeys(pins["WR_EN"]))
    inputs = [*pins["RD_EN"], *pins["RD_ADDR"], *enables, *pins["WR_ADDR"], *pins["WR_DATA"]]
    for kind, pin, found in (("INPUT", "d", inputs), ("OUTPUT", "q", pins["RD_DATA"])):
        for bit in found:
            yield {
                "type": f"MEMORY_{kind}",
                "attributes": {"keep": "1"},
                "parameters": {},
                "port_directions": {"clk": "input", pin: kind.lower()},
                "connections": {"clk": [pins["RD_CLK"][0]], pin: [bit]},
            }


def _slowest_path(top: str, period: float, folder: Path) -> float | None:
    """Nanoseconds of the slowest path of the netlist, setup included, by OpenSTA."""
    program = shutil.which("sta")
    if program is None:
        raise SynthesisError("OpenSTA (sta) is not installed: run `apt-get install opensta` first")
    (folder / "sta.tcl").write_text(_TIMING.format(top=top, period=period))
    command = [program, "-no_splash", "-exit", "sta.tcl"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    said = done.stdout + done.stderr
    (folder / "sta.log").write_text(said)
    if done.returncode or "Error:" in said:
        first = next((line for line in said.splitlines() if "Error:" in line), "")
        raise SynthesisError(f"OpenSTA failed; see {folder / 'sta.log'}: {first}")
    slack = _SLACK.search(said)
    return None if slack is None else round(period - float(slack[1]), 3)

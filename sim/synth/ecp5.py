"""The ECP5 flow: Yosys for the counts, nextpnr for the frequency, between two shift registers."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.files import locked, write_if_changed, write_json

from sim.design import Design
from sim.synth import macros as macro_places
from sim.synth import passes, tools
from sim.synth.fold import FLIP_FLOP, Folded
from sim.synth.parts import cells_by_part
from sim.synth.passes import Improved
from sim.synth.tools import SynthesisError, Unended, run_yosys

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "synth"

DEVICE = ("--85k", "--package", "CABGA381", "--speed", "6")
AVAILABLE = {"LUT4": 83_640, "FF": 83_640, "DSP": 156, "block RAM": 208}

# nextpnr's own default (heap) spreads the accelerator over a part that is mostly empty; the
# electrostatic placer keeps it together: at 4 lanes 101 MHz with it and 77 without.
PLACERS = ("static", "heap")

# The same placement of the accelerator at 4 lanes: 105 MHz with router1, 84 with router2, which is
# nextpnr's own default.
ROUTERS = ("router1", "router2")

#: Yosys cells -> (row of the table, how many of it one cell takes).
CELLS = {
    "LUT4": ("LUT4", 1),
    "CCU2C": ("LUT4", 2),  # two bits of a carry chain, each in the place of a LUT
    "TRELLIS_DPR16X4": ("LUT4", 4),  # 16 words of 4 bits of distributed RAM
    "TRELLIS_FF": ("FF", 1),
    "MULT18X18D": ("DSP", 1),
    "DP16KD": ("block RAM", 1),
}

# What Yosys appends to a net's name to call the cell that drives it, of ECP5 and of Nexus.
_CELL_SUFFIX = re.compile(
    r"_(TRELLIS_FF|LUT4|CCU2C?|PFUMX|L6MUX21|MULT18X18D?|DP16KD?|FD1P3[IJ]X|WIDEFN9|INV|PDPSC16K)"
    r"_\w+(\[\d+\])?$"
)

_UNNAMED = re.compile(r"(^|\.)_\d+_")  # an expression without a name of its own


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Routed timing.

    Attributes
    ----------
    fmax_mhz
        Of the slowest path from register to register.
    path
        Signals along that path, from the starting to the ending register.
    logic_ns, routing_ns
        Its two shares.
    seed
        Of the placement that this is.
    """

    fmax_mhz: float
    path: list[str]
    logic_ns: float
    routing_ns: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Figures of one synthesis.

    Attributes
    ----------
    resources
        Of the unit. FF is all its registers, those that `folded` has moved included; LUT4 has
        nothing of what carry chains have taken in.
    parts
        The resources, divided among the unit's parts.
    absorbed
        LUTs that went into carry chains.
    folded
        The registers that lie inside DSPs and block RAMs.
    timings
        Of the placements that ended, in the order of the seeds; none where nothing was placed.
    unended
        Seeds whose placement or routing was stopped, since it took too long.
    seconds
        Of the synthesis.
    """

    unit: str
    configuration: dict[str, object]
    resources: dict[str, int]
    parts: dict[str, dict[str, int]]
    absorbed: int
    folded: Folded
    timings: list[Timing]
    unended: list[int]
    seconds: float

    @property
    def median(self) -> Timing | None:
        """Of the placement in the middle, the slower one of two: what a placement may give.

        One that did not end counts as the slowest; None where it would be in the middle.
        """
        ordered = sorted(self.timings, key=lambda timing: timing.fmax_mhz)
        middle = (len(ordered) + len(self.unended) - 1) // 2 - len(self.unended)
        return ordered[middle] if ordered and middle >= 0 else None

    @property
    def worst(self) -> Timing | None:
        """None where one did not end, or nothing was placed."""
        if self.unended:
            return None
        return min(self.timings, key=lambda timing: timing.fmax_mhz, default=None)


def wrapper(design: Design) -> str:
    """Verilog of `wrapped`: the unit with all inputs from one shift register, all outputs into one.

    Pins: clk, data_in, capture, data_out. Inputs of the unit, reset among them, are the bits of a
    shift register; on `capture` its outputs are copied into another one, which then shifts out.
    Trace ports are for benches: they stay open, as in a design that uses the unit.
    """
    inputs = {name: port.width for name, port in design.ports.items() if port.is_input}
    outputs = {
        name: port.width
        for name, port in design.ports.items()
        if not (port.is_input or name.startswith("trace_"))
    }
    del inputs["clk"]
    total_in, total_out = sum(inputs.values()), sum(outputs.values())
    connections, at = [".clk(clk)"], 0
    for name, width in inputs.items():
        connections.append(f".{name}(operands[{at} +: {width}])")
        at += width
    at = 0
    for name, width in outputs.items():
        connections.append(f".{name}(outputs[{at} +: {width}])")
        at += width
    joined = ",\n    ".join(connections)
    return f"""\
module wrapped(input clk, input data_in, input capture, output data_out);
  reg [{total_in}:0] operands;
  reg [{total_out - 1}:0] results;
  reg captured;
  wire [{total_out - 1}:0] outputs;
  always @(posedge clk) begin
    operands <= {{operands, data_in}};
    captured <= capture;
    results <= captured ? outputs : results >> 1;
  end
  assign data_out = results[0];
  {design.name} unit (
    {joined}
  );
endmodule
"""


def _count(cells: Mapping[str, int]) -> dict[str, int]:
    """Table rows of Yosys's cell counts."""
    counts = dict.fromkeys(AVAILABLE, 0)
    for cell, number in cells.items():
        if cell in CELLS:
            row, each = CELLS[cell]
            counts[row] += number * each
    return counts


def _synthesise(
    design: Design, folder: Path
) -> tuple[dict[str, int], dict[str, dict[str, int]], Improved]:
    """Resources of the unit alone, in all and by part; logic is optimised across the parts."""
    name = design.name
    run_yosys(f"read_verilog {name}.v", name, f"write_json {name}.json", folder)
    module = json.loads((folder / f"{design.name}.json").read_text())["modules"][design.name]
    registers = {name: cell for name, cell in module["cells"].items() if cell["type"] == FLIP_FLOP}
    improved = passes.improve(module)
    cells = module["cells"] | registers  # also those that have been moved
    kinds = Counter(cell["type"] for cell in cells.values())
    parts = cells_by_part(design.verilog, f"{design.name}.v", cells)
    counts = {part: _count(parts[part]) for part in sorted(parts)}
    filled = {part: count for part, count in counts.items() if any(count.values())}
    return _count(kinds), filled, improved


def _bit(name: str) -> str:
    return re.sub(r"\[\d+\]$", "", name)


def signal_of(cell: str) -> str:
    """The design's own name behind the name of a cell, or of a net that Yosys named after one."""
    return _CELL_SUFFIX.sub("", cell).removeprefix("unit.")


def read_timing(report: dict[str, Any], seed: int) -> Timing:
    """Fmax and the slowest register-to-register path of nextpnr's JSON report.

    Raises
    ------
    SynthesisError
        The design has no path from register to register.
    """
    if not report["fmax"]:
        raise SynthesisError("the design has no path from register to register")
    clock, speed = min(report["fmax"].items(), key=lambda entry: entry[1]["achieved"])
    ends = f"posedge {clock}"
    paths = [p["path"] for p in report["critical_paths"] if p["from"] == p["to"] == ends]
    (steps,) = paths
    names = [signal_of(steps[0]["from"]["cell"])]
    names += [signal_of(step["net"]) for step in steps if "net" in step]
    names.append(signal_of(steps[-1]["to"]["cell"]))
    shown: list[str] = []
    for name in names:
        own = "$" not in name and not _UNNAMED.search(name)
        if own and _bit(name) not in map(_bit, shown[-1:]):
            shown.append(name)
    routing = sum(step["delay"] for step in steps if step["type"] == "routing")
    return Timing(
        fmax_mhz=round(speed["achieved"], 1),
        path=shown,
        logic_ns=round(sum(step["delay"] for step in steps) - routing, 2),
        routing_ns=round(routing, 2),
        seed=seed,
    )


def _map(design: Design, folder: Path, netlist: Path) -> None:
    """The netlist of the unit between its shift registers, as nextpnr gets it."""
    (folder / "wrapped.v").write_text(wrapper(design))
    read = f"read_verilog wrapped.v {design.name}.v"
    run_yosys(read, "wrapped", "write_json wrapped.json", folder)
    passes.improve_file(folder / "wrapped.json", "wrapped", placed=True)
    (folder / "wrapped.json").rename(netlist)


def _with_places(netlist: Path, starts: int, say: Callable[[str], None]) -> Path:
    """The netlist whose DSPs and block RAMs have places."""
    version = hashlib.sha256(Path(macro_places.__file__).read_bytes()).hexdigest()[:8]
    result = netlist.with_name(f"{netlist.stem}-{version}-{starts}.json")
    if not result.exists():
        say(f"places for DSPs and block RAMs, the best of {starts}")
        whole = json.loads(netlist.read_text())
        wires = macro_places.fix(whole["modules"]["wrapped"], starts)
        say(f"wires of {wires:,.0f} tiles, where nothing overlaps more than on average")
        write_json(result, whole)
    return result


def _place_and_route(
    netlist: Path,
    freq: float,
    seed: int,
    placer: str,
    router: str,
    patience: float | None,
    say: Callable[[str], None],
) -> Timing | None:
    """The timing of this placement, kept beside the netlist; None where it did not end."""
    kept = netlist.with_name(f"{netlist.stem}-{seed}-{freq:g}-{placer}-{router}.json")
    with locked(kept.with_suffix(".lock")):
        if not kept.exists():
            report, log = kept.with_suffix(".report"), kept.with_suffix(".log")
            say(f"place and route, seed {seed} (log: {log})")
            arguments = ["--json", netlist.name, "--report", report.name, "--timing-allow-fail"]
            arguments += ["--freq", str(freq), "--seed", str(seed)]
            arguments += ["--placer", placer, "--router", router]
            folder = netlist.parent
            try:
                tools.run_tool(
                    "nextpnr-ecp5",
                    *DEVICE,
                    *arguments,
                    folder=folder,
                    log_name=log.name,
                    seconds=patience,
                )
            except Unended:
                say(f"seed {seed} has not ended after {patience:g} s")
                return None
            timing = read_timing(json.loads(report.read_text()), seed)
            write_json(kept, dataclasses.asdict(timing))
            say(f"Fmax {timing.fmax_mhz} MHz")
        return Timing(**json.loads(kept.read_text()))


def synthesise(
    design: Design,
    *,
    route: bool = True,
    freq: float = 100.0,
    seeds: Sequence[int] = (1,),
    placer: str = PLACERS[0],
    router: str = ROUTERS[0],
    macros: int = 0,
    patience: float | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> Cost:
    """Resources of `design` and, with `route`, its timing.

    The synthesis of a design is done once, and each placement of it; several commands can place one
    design at once, each with seeds of its own.

    Parameters
    ----------
    freq
        Target of place and route in MHz; it stops improving there.
    seeds
        Of the placer. Fmax moves by some 10 % from one to the next; the median counts.
    placer, router
        nextpnr's; of `PLACERS` and `ROUTERS`.
    macros
        Starts from which places for DSPs and block RAMs are looked for (sim.synth.macros), of which
        the best are taken; 0: nextpnr places them.
    patience
        Seconds after which a placement is stopped, whose seed is in `unended` then; None: never.
    say
        Told before each step that takes time.

    Raises
    ------
    SynthesisError
        A tool refused the design, or it does not fit the part.
    """
    folder = FOLDER / f"{design.name}-{design.configuration}"
    sources = (Path(__file__), Path(tools.__file__), *passes.SOURCES)
    facts = [design.verilog, *(source.read_text() for source in sources)]
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    counted, netlist = folder / f"{key}.json", folder / f"{key}-wrapped.json"
    with locked(folder / "lock"):
        write_if_changed(folder / f"{design.name}.v", design.verilog)
        if not counted.exists():
            say(f"synthesis of {design.name}")
            start = time.monotonic()
            resources, parts, improved = _synthesise(design, folder)
            found = {
                "resources": resources,
                "parts": parts,
                "absorbed": improved.luts,
                "folded": dataclasses.asdict(improved.folded),
                "seconds": round(time.monotonic() - start, 1),
            }
            write_json(counted, found)
        if route and not netlist.exists():
            say(f"synthesis of {design.name} between two shift registers")
            _map(design, folder, netlist)
        if route and macros:
            netlist = _with_places(netlist, macros, say)
    placed = {
        seed: _place_and_route(netlist, freq, seed, placer, router, patience, say)
        for seed in (seeds if route else ())
    }
    known = json.loads(counted.read_text())
    return Cost(
        unit=design.name,
        configuration=json.loads(design.sheet)["configuration"],
        timings=[timing for timing in placed.values() if timing is not None],
        unended=[seed for seed, timing in placed.items() if timing is None],
        **known | {"folded": Folded(**known["folded"])},
    )

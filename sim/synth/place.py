"""nextpnr: places for cells, ways for nets, and the timing that comes of it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.files import locked, write_json

from sim.synth import anneal, copies, moves, placement, refine, tools
from sim.synth import macros as macro_places
from sim.synth.tools import SynthesisError, Unended

DEVICE = ("--85k", "--package", "CABGA381", "--speed", "6")

# nextpnr's own default (heap) spreads the accelerator over a part that is mostly empty; the
# electrostatic placer keeps it together: at 4 lanes 101 MHz with it and 77 without.
PLACERS = ("static", "heap")

# The same placement of the accelerator at 4 lanes: 105 MHz with router1, 84 with router2, which is
# nextpnr's own default.
ROUTERS = ("router1", "router2")

# How router2 routes an annealed placement, which has most of the part's wires in use. A wire that
# others want, too, costs more in each round: with its own 2 and 1, wires get longer from the
# twenty-fifth round on, and what is wanted twice gets more again. A net may leave its box by this
# many tiles instead of 3. (A text of ones and zeros alone would be read as binary.)
PATIENT = {
    "router2/currCongWeightMult": "0.2",
    "router2/histCongWeight": "0.7",
    "router2/bbMargin/x": "9",
    "router2/bbMargin/y": "9",
}

SOURCES = anneal, copies, moves, placement, refine  # of an annealed placement

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


def with_places(netlist: Path, starts: int, say: Callable[[str], None]) -> Path:
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


@dataclass(frozen=True)
class Attempt:
    """How a placement is made: `synthesise` has the words."""

    freq: float
    seed: int
    placer: str
    router: str
    annealed: bool
    patience: float | None

    def name(self, netlist: Path) -> str:
        """Of what is kept of it."""
        name = f"{netlist.stem}-{self.seed}-{self.freq:g}-{self.placer}-{self.router}"
        if self.annealed:
            sources = b"".join(Path(str(m.__file__)).read_bytes() for m in SOURCES)
            sources += str(PATIENT).encode()
            name += f"-{hashlib.sha256(sources).hexdigest()[:8]}"
        return f"{name}.json"

    def run(self, netlist: Path, report: Path, log: Path, say: Callable[[str], None]) -> None:
        """Place and route, in one run of nextpnr or two; Unended where one takes too long."""

        def nextpnr(source: Path, log: Path, *arguments: str) -> None:
            tools.run_tool(
                "nextpnr-ecp5",
                *DEVICE,
                *("--json", source.name, "--freq", str(self.freq), "--seed", str(self.seed)),
                *("--timing-allow-fail", *arguments),
                folder=netlist.parent,
                log_name=log.name,
                seconds=self.patience,
            )

        place, route = ("--placer", self.placer), ("--router", self.router, "--report", report.name)
        if not self.annealed:
            nextpnr(netlist, log, *place, *route)
            return
        placed = netlist.with_name(f"{netlist.stem}-{self.seed}-{self.freq:g}-{self.placer}.placed")
        with locked(placed.with_suffix(".lock")):
            if not placed.exists():
                new, said = placed.with_suffix(".new"), placed.with_suffix(".log")
                nextpnr(netlist, said, *place, "--no-route", "--write", new.name)
                new.rename(placed)
        whole = json.loads(placed.read_text())
        module = whole["modules"][refine.MODULE]
        found = refine.refine(module)
        module["settings"] |= PATIENT | {"router": self.router}  # what the file says counts
        say(
            f"{found.copies} copies of registers that drive far; wires of {found.wires:,.0f} "
            f"tiles, before the annealing {found.wires_before:,.0f}"
        )
        annealed = report.with_suffix(".annealed")
        write_json(annealed, whole)
        nextpnr(annealed, log, "--no-pack", "--no-place", *route)


def place_and_route(netlist: Path, attempt: Attempt, say: Callable[[str], None]) -> Timing | None:
    """The timing of this placement, kept beside the netlist; None where it did not end."""
    kept, seed = netlist.with_name(attempt.name(netlist)), attempt.seed
    with locked(kept.with_suffix(".lock")):
        if not kept.exists():
            report, log = kept.with_suffix(".report"), kept.with_suffix(".log")
            say(f"place and route, seed {seed} (log: {log})")
            try:
                attempt.run(netlist, report, log, say)
            except Unended:
                say(f"seed {seed} has not ended after {attempt.patience:g} s")
                return None
            timing = read_timing(json.loads(report.read_text()), seed)
            write_json(kept, dataclasses.asdict(timing))
            say(f"Fmax {timing.fmax_mhz} MHz")
        return Timing(**json.loads(kept.read_text()))

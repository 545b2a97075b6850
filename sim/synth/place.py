"""nextpnr: places for cells, ways for nets, and the timing that comes of it."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.files import locked, write_json
from cli.progress import stage

from sim.synth import tools
from sim.synth.tools import SynthesisError, Unended

PARTS = ("LFE5U-25", "LFE5U-45", "LFE5U-85")
PART = PARTS[-1]

# nextpnr's own default (heap) spreads the accelerator over a part that is mostly empty; the
# electrostatic placer keeps it together: at 4 lanes 101 MHz with it and 77 without.
PLACERS = ("static", "heap")

# The same placement of the accelerator at 4 lanes: 105 MHz with router1, 84 with router2, which is
# nextpnr's own default.
ROUTERS = ("router1", "router2")

# What Yosys appends to a net's name to call the cell that drives it.
_CELL_SUFFIX = re.compile(
    r"_(TRELLIS_FF|LUT4|CCU2C|PFUMX|L6MUX21|MULT18X18D|DP16KD)_\w+(\[\d+\])?$"
)

_UNNAMED = re.compile(r"(^|\.)_\d+_")  # an expression without a name of its own


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Routed timing: Fmax, the signals of the slowest path between registers, its two shares."""

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

    SynthesisError where the design has no such path.
    """
    if not report["fmax"]:
        raise SynthesisError("the design has no path from register to register")
    clock, speed = min(report["fmax"].items(), key=lambda entry: entry[1]["achieved"])
    ends = f"posedge {clock}"
    (steps,) = (p["path"] for p in report["critical_paths"] if p["from"] == p["to"] == ends)
    nets = (step["net"] for step in steps if "net" in step)
    shown: list[str] = []
    for name in map(signal_of, (steps[0]["from"]["cell"], *nets, steps[-1]["to"]["cell"])):
        own = "$" not in name and not _UNNAMED.search(name)
        if own and _bit(name) not in map(_bit, shown[-1:]):
            shown.append(name)
    routing = sum(step["delay"] for step in steps if step["type"] == "routing")
    logic = sum(step["delay"] for step in steps) - routing
    return Timing(
        fmax_mhz=round(speed["achieved"], 1),
        path=shown,
        logic_ns=round(logic, 2),
        routing_ns=round(routing, 2),
        seed=seed,
    )


def place_and_route(
    netlist: Path,
    *,
    seed: int,
    part: str = PART,
    freq: float = 100.0,
    placer: str = PLACERS[0],
    router: str = ROUTERS[0],
    patience: float | None = None,
) -> Timing | None:
    """The timing of this placement, kept beside the netlist; None where it did not end.

    It stops improving at `freq` MHz; `part`, `placer` and `router` are of `PARTS`, `PLACERS` and
    `ROUTERS`; nextpnr is stopped after `patience` seconds, with None never.
    """
    kept = netlist.with_name(f"{netlist.stem}-{part}-{seed}-{freq:g}-{placer}-{router}.json")
    with locked(kept.with_suffix(".lock")):
        if not kept.exists():
            report, log = kept.with_suffix(".report"), kept.with_suffix(".log")
            stage(f"place and route, seed {seed} (log: {log})")
            size = f"--{part.removeprefix('LFE5U-')}k"
            words = [size, "--package", "CABGA381", "--speed", "6"]
            words += ["--json", netlist.name, "--freq", str(freq)]
            words += ["--seed", str(seed), "--placer", placer, "--router", router]
            words += ["--timing-allow-fail", "--report", report.name]
            here = netlist.parent
            try:
                tools.run_tool(
                    "nextpnr-ecp5", *words, folder=here, log_name=log.name, seconds=patience
                )
            except Unended:
                stage(f"seed {seed} has not ended after {patience:g} s")
                return None
            timing = read_timing(json.loads(report.read_text()), seed)
            write_json(kept, dataclasses.asdict(timing))
            stage(f"Fmax {timing.fmax_mhz} MHz")
        return Timing(**json.loads(kept.read_text()))

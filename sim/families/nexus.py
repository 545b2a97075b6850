"""Place and route on a Lattice Nexus part: nextpnr, with the unit between two shift registers."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cli.files import locked, write_if_changed, write_json

from sim.design import Design
from sim.families.count import used
from sim.families.families import script_of
from sim.synth.ecp5 import FOLDER, wrapper
from sim.synth.place import Timing, read_timing
from sim.synth.tools import SynthesisError, run_tool

GRADES = ("9", "8", "7")
PART = "LIFCL-40-{grade}BG400C"
AVAILABLE = {"LUT": 32_256, "FF": 32_256, "DSP": 56, "block RAM": 84}

#: Kinds of cells -> what nextpnr's report calls their places.
PLACES = {"LUT": "OXIDE_COMB", "FF": "OXIDE_FF", "DSP": "MULT18_CORE", "block RAM": "OXIDE_EBR"}

#: Pins of `wrapped`; L13 is one of those that reach the clock network by a way of their own.
PINS = {"clk": "L13", "data_in": "E17", "capture": "F13", "data_out": "G13"}

# nextpnr's default (router2) finds no way from the pin of the clock to the clock network.
OPTIONS = ("--router", "router1", "--freq", "100", "--timing-allow-fail")

_PADS = "iopadmap -bits -inpad IB O:I -outpad OB I:O"


@dataclass(frozen=True, kw_only=True)
class Routed:
    """Figures of one placement; `used` has the kinds, the two shift registers among them."""

    part: str
    unit: str
    configuration: dict[str, object]
    used: dict[str, int]
    timing: Timing
    seconds: float


def pins() -> str:
    """The constraints of `wrapped`'s ports, as a PDC file has them."""
    places = [f"ldc_set_location -site {{{pin}}} [get_ports {port}]" for port, pin in PINS.items()]
    kinds = [f"ldc_set_port -iobuf {{IO_TYPE=LVCMOS33}} [get_ports {port}]" for port in PINS]
    return "\n".join([*places, *kinds, ""])


def free_carries(module: dict[str, Any]) -> int:
    """Open the carry input of cells that begin a chain, in a flat netlist; how many there were.

    Yosys ties the input to 0, nextpnr wants it open. Which of both it is changes no bit where it
    is opened: the upper half of the cell does not pass it on (INIT1 gives 0 wherever D1 is 1, so
    that COUT comes from the other inputs of that half), and nothing reads S0 and S1.

    Raises
    ------
    SynthesisError
        A carry input is a constant that counts.
    """
    cells = module["cells"]
    readers: Counter[object] = Counter()
    constants: dict[object, str] = {"0": "0", "1": "1", "x": "x"}
    for cell in cells.values():
        if cell["type"] in ("VLO", "VHI"):
            constants[cell["connections"]["Z"][0]] = "0" if cell["type"] == "VLO" else "1"
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "input":
                readers.update(bits)
    for port in module["ports"].values():
        readers.update(port["bits"])
    freed = 0
    for name, cell in cells.items():
        connections = cell["connections"]
        if cell["type"] != "CCU2" or connections.get("CIN", [None])[0] not in constants:
            continue
        stops = int(cell["parameters"]["INIT1"], 16) >> 8 == 0
        high = constants.get(connections["D1"][0]) == "1"
        sums = [bit for port in ("S0", "S1") for bit in connections.get(port, [])]
        if not (stops and high) or any(readers[bit] for bit in sums):
            raise SynthesisError(
                f"the carry input of {name} is a constant that its outputs depend on: nextpnr has "
                "no such cell"
            )
        del connections["CIN"]
        freed += 1
    return freed


def check_fit(design: Design, needed: dict[str, int], part: str) -> None:
    """Refuse what the part has too few of.

    Raises
    ------
    SynthesisError
        Which kinds, how many, and how many there are.
    """
    over = [
        f"{number:,} {kind} of {AVAILABLE[kind]:,}"
        for kind, number in needed.items()
        if number > AVAILABLE[kind]
    ]
    if over:
        raise SynthesisError(
            f"{design.name} does not fit {part}: it takes {', '.join(over)}: choose fewer lanes, "
            "tokens or channels"
        )


def route(
    design: Design,
    *,
    grade: str = GRADES[0],
    seed: int = 1,
    say: Callable[[str], None] = lambda message: None,
) -> Routed:
    """Resources and timing of `design` on the part; done once for each design and options.

    Parameters
    ----------
    grade
        Speed grade, one of `GRADES`; 9 is the fastest.
    seed
        Of the placer.
    say
        Told before each step that takes time.

    Raises
    ------
    SynthesisError
        A tool is missing or failed, or the design does not fit the part.
    """
    part, tool = PART.format(grade=grade), _version("nextpnr-nexus")
    folder = FOLDER / f"{design.name}-{design.configuration}-LIFCL-40"
    with locked(folder / "lock"):
        start = time.monotonic()
        netlist = _mapped(design, folder, say)
        facts = [netlist.name, pins(), part, str(seed), *OPTIONS, tool]
        cached = folder / f"{_key(facts)}.json"
        if cached.exists():
            known = json.loads(cached.read_text())
            return Routed(**(known | {"timing": Timing(**known["timing"])}))
        cells = json.loads(netlist.read_text())["modules"]["wrapped"]["cells"].values()
        check_fit(design, used("nexus", Counter(cell["type"] for cell in cells)), part)
        say(f"place and route, {part}, seed {seed} (log: {folder / 'nextpnr-nexus.log'})")
        report = _place_and_route(folder, netlist, part, seed)
        routed = Routed(
            part=part,
            unit=design.name,
            configuration=json.loads(design.sheet)["configuration"],
            used={kind: report["utilization"][place]["used"] for kind, place in PLACES.items()},
            timing=read_timing(report, seed),
            seconds=round(time.monotonic() - start, 1),
        )
        write_json(cached, dataclasses.asdict(routed))
        return routed


def _mapped(design: Design, folder: Path, say: Callable[[str], None]) -> Path:
    """The netlist of `wrapped` as nextpnr takes it; mapped once for each design."""
    read = f"read_verilog wrapped.v {design.name}.v"
    script = f"{read}; {script_of('nexus', 'wrapped')}; {_PADS}; delete t:$scopeinfo"
    key = _key([design.verilog, wrapper(design), script, _version("yosys")])
    netlist = folder / f"{key}-netlist.json"
    if not netlist.exists():
        say(f"synthesis of {design.name} for the LIFCL-40")
        write_if_changed(folder / f"{design.name}.v", design.verilog)
        write_if_changed(folder / "wrapped.v", wrapper(design))
        run_tool("yosys", "-q", "-p", f"{script}; write_json wrapped.json", folder=folder)
        mapped = json.loads((folder / "wrapped.json").read_text())
        free_carries(mapped["modules"]["wrapped"])
        write_json(netlist, mapped)
    return netlist


def _place_and_route(folder: Path, netlist: Path, part: str, seed: int) -> dict[str, Any]:
    """nextpnr's report."""
    report = folder / "timing.json"
    report.unlink(missing_ok=True)
    write_if_changed(folder / "wrapped.pdc", pins())
    files = ["--json", netlist.name, "--pdc", "wrapped.pdc", "--report", report.name]
    arguments = ["--device", part, *files, "--seed", str(seed), *OPTIONS]
    try:
        run_tool("nextpnr-nexus", *arguments, folder=folder)
    except SynthesisError as error:
        said = [line for line in str(error).splitlines() if line.startswith("ERROR: ")]
        if not said:
            raise
        log = folder / "nextpnr-nexus.log"
        raise SynthesisError(f"nextpnr-nexus failed: {said[0]} (log: {log})") from None
    if not report.exists():
        raise SynthesisError(
            f"nextpnr-nexus ended without {report}: {folder / 'nextpnr-nexus.log'} may say why"
        )
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def _key(facts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]


def _version(tool: str) -> str:
    try:
        return version(f"yowasp-{tool}")
    except PackageNotFoundError:
        raise SynthesisError(
            f"yowasp-{tool} is not installed: run `make setup-synth` first"
        ) from None

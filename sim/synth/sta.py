"""OpenSTA on a netlist of standard cells: its clock, and its power from the toggles of a run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sim.synth.netlist import Bit
from sim.synth.tools import SynthesisError

PROGRAM = "sta"


@dataclass
class Flat:
    """A netlist of several modules as one, its nets and cells numbered.

    Attributes
    ----------
    cells
        Type, and for each pin its bits from the lowest on: a net, or a constant.
    paths
        Of each cell: the instances above it and its own name.
    names
        Nets by the names of the design, "part.part.signal", from the lowest bit on.
    ports
        Direction and nets of each port.
    """

    cells: list[tuple[str, dict[str, list[Bit]]]] = field(default_factory=list)
    paths: list[tuple[str, ...]] = field(default_factory=list)
    names: dict[str, list[Bit]] = field(default_factory=dict)
    ports: dict[str, tuple[str, list[Bit]]] = field(default_factory=dict)

    def signal(self, cell: int) -> str:
        """The design's own name of what a cell drives, or where there is none of the cell."""
        _, pins = self.cells[cell]
        driven = {bits[0] for pin, bits in pins.items() if pin in ("Q", "Y")}
        named = (name for name, bits in self.names.items() if driven & set(bits))
        *above, itself = self.paths[cell]
        inside = "".join(f"{name}." for name in above)

        def order(name: str) -> tuple[bool, bool, int]:
            return not name.startswith(inside), "$" in name, len(name)

        return min(named, key=order, default=inside + itself)

    def verilog(self, top: str) -> str:
        """Text whose names no reader takes for others: n1 for a net, c1 for a cell."""
        ports = {bit: way for way, bits in self.ports.values() for bit in bits}
        ways = {bit: way for bit, way in ports.items() if isinstance(bit, int)}
        lines = [f"module {top}({', '.join(map(_net, ways))});"]
        lines += [f"  {way} {_net(bit)};" for bit, way in ways.items()]
        return "\n".join([*lines, *self._inside(set(ways)), "endmodule", ""])

    def module(self, top: str, begins: Callable[[], str], flip_flop: str) -> str:
        """The same with the ports of the design; each flip-flop begins with a bit of `begins`."""
        lines = [f"module {top}({', '.join(self.ports)});"]
        for name, (way, bits) in self.ports.items():
            lines.append(f"  {way} [{len(bits) - 1}:0] {name};")
        inside = self._inside(set())
        for name, (way, bits) in self.ports.items():
            nets = "{" + ", ".join(map(_net, reversed(bits))) + "}"
            pair = (nets, name) if way == "input" else (name, nets)
            inside.append(f"  assign {pair[0]} = {pair[1]};")
        start = f"  {flip_flop} "
        lines += [
            f"{start}#(1'b{begins()}) {line.removeprefix(start)}"
            if line.startswith(start)
            else line
            for line in inside
        ]
        return "\n".join([*lines, "endmodule", ""])

    def _inside(self, declared: set[Bit]) -> list[str]:
        used = {bit for _, pins in self.cells for bits in pins.values() for bit in bits}
        used |= {bit for _, bits in self.ports.values() for bit in bits}
        lines = [f"  wire {_net(bit)};" for bit in sorted(_numbers(used - declared))]
        for number, (kind, pins) in enumerate(self.cells):
            joined = ", ".join(f".{pin}({_word(bits)})" for pin, bits in pins.items())
            lines.append(f"  {kind} c{number} ({joined});")
        return lines


def _numbers(bits: set[Bit]) -> Iterator[int]:
    return (bit for bit in bits if isinstance(bit, int))


def _net(bit: Bit) -> str:
    return f"n{bit}" if isinstance(bit, int) else "1'b1" if bit == "1" else "1'b0"


def _word(bits: list[Bit]) -> str:
    return _net(bits[0]) if len(bits) == 1 else f"{{{', '.join(map(_net, reversed(bits)))}}}"


def flat(modules: Mapping[str, Any], top: str) -> Flat:
    """The modules of Yosys' JSON below `top` as one; what is no module is a cell."""
    found = Flat()
    count = 0
    same: dict[Bit, Bit] = {}  # nets that a module below joins, or ties to a constant

    def joined(bit: Bit) -> Bit:
        while bit in same:
            bit = same[bit]
        return bit

    def join(one: Bit, other: Bit) -> None:
        one, other = joined(one), joined(other)
        if one != other and not (isinstance(one, str) and isinstance(other, str)):
            kept, gone = (one, other) if isinstance(one, str) else (other, one)
            same[gone] = kept

    def visit(module: Mapping[str, Any], path: tuple[str, ...], bound: dict[Bit, Bit]) -> None:
        nonlocal count

        def net(bit: Bit) -> Bit:
            nonlocal count
            if isinstance(bit, str):
                return bit
            if bit not in bound:
                bound[bit] = count
                count += 1
            return bound[bit]

        for name, wire in module["netnames"].items():
            if not wire["hide_name"]:
                found.names[".".join([*path, name])] = [net(bit) for bit in wire["bits"]]
        for name, cell in module["cells"].items():
            pins = {pin: [net(bit) for bit in bits] for pin, bits in cell["connections"].items()}
            below = modules.get(cell["type"])
            if below is None or "blackbox" in below["attributes"]:
                found.cells.append((cell["type"], pins))
                found.paths.append((*path, name))
                continue
            inner: dict[Bit, Bit] = {}
            for port, facts in below["ports"].items():
                for bit, outer in zip(facts["bits"], pins.get(port, ())):
                    if isinstance(bit, str) or bit in inner:
                        join(inner.get(bit, bit), outer)
                    else:
                        inner[bit] = outer
            visit(below, (*path, name), inner)

    whole = modules[top]
    bound: dict[Bit, Bit] = {}
    for facts in whole["ports"].values():
        for bit in facts["bits"]:
            if isinstance(bit, int) and bit not in bound:
                bound[bit] = count
                count += 1
    visit(whole, (), bound)
    return Flat(
        cells=[
            (kind, {pin: [joined(bit) for bit in bits] for pin, bits in pins.items()})
            for kind, pins in found.cells
        ],
        paths=found.paths,
        names={name: [joined(bit) for bit in bits] for name, bits in found.names.items()},
        ports={
            name: (facts["direction"], [joined(bound.get(bit, bit)) for bit in facts["bits"]])
            for name, facts in whole["ports"].items()
        },
    )


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The slowest path from register to register, at the library's one corner.

    Attributes
    ----------
    period_ns
        Its delay, setup included.
    start, end
        Numbers of its first and last cell.
    """

    period_ns: float
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Power:
    """Milliwatts: inside of flip-flops and of gates with what these switch, and leakage in both."""

    sequential: float
    combinational: float


#: OpenSTA 2.0 knows no option that sets a pin's activity; the command behind it does.
_ACTIVITY = "sta::set_power_pin_activity [get_pins c{cell}/{pin}] {toggles:.6g} {ones:.6g}"
#: OpenSTA 2.0 crashed on 190,000 activities and on 310,000, and did not without glibc's caches of
#: freed memory. Why is not known.
_CACHELESS = "glibc.malloc.tcache_count=0"
_PATH_END = re.compile(r"^(Startpoint|Endpoint): c(\d+)\b", re.MULTILINE)
_SLACK = re.compile(r"^\s+(-?[\d.]+)\s+slack", re.MULTILINE)
_POWER = re.compile(r"^(Sequential|Combinational) +(\S+) +(\S+) +(\S+) ", re.MULTILINE)


def analyse(
    netlist: Flat, folder: Path, clock_mhz: float, activity: Mapping[Bit, tuple[float, float]]
) -> tuple[Timing | None, Power | None]:
    """Timing of a netlist in `folder`, which holds the libraries, and its power at that clock.

    Wires have no length, the clock reaches all at once, and ports bound no path.

    Parameters
    ----------
    activity
        Toggles a cycle and share of ones of every net; where it is empty no power is found.

    Raises
    ------
    SynthesisError
        OpenSTA is not installed, or refuses the netlist.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise SynthesisError("OpenSTA (sta) is not installed: run `apt-get install opensta` first")
    top = "top"
    period = 1e3 / clock_mhz
    (clock,) = netlist.ports["clk"][1]
    lines = [f"read_liberty {path}" for path in sorted(folder.glob("*.lib"))]
    lines += [
        "read_verilog sta.v",
        f"link_design {top}",
        f"create_clock -period {period} {_net(clock)}",
        "set_input_transition 0.1 [all_inputs]",
        "report_checks -path_delay max",
    ]
    for number, (_, pins) in enumerate(netlist.cells if activity else ()):
        for pin, bits in pins.items():
            if len(bits) == 1 and bits[0] in activity and bits[0] != clock:
                toggles, ones = activity[bits[0]]
                lines.append(_ACTIVITY.format(cell=number, pin=pin, toggles=toggles, ones=ones))
    if activity:
        lines.append("report_power -digits 6")
    with tempfile.TemporaryDirectory(prefix="bert2rtl-sta-") as temporary:
        here = Path(temporary)
        (here / "sta.v").write_text(netlist.verilog(top))
        (here / "sta.tcl").write_text("\n".join([*lines, ""]))
        command = [program, "-no_splash", "-exit", "sta.tcl"]
        environment = os.environ | {"GLIBC_TUNABLES": _CACHELESS}
        done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if done.returncode or "Error:" in said:
        first = next((line for line in said.splitlines() if "Error:" in line), "")
        raise SynthesisError(f"OpenSTA failed on the netlist in {folder}: {first}")
    ends = {name: int(number) for name, number in _PATH_END.findall(said)}
    timing = None
    if slack := _SLACK.search(said):
        delay = round(period - float(slack[1]), 3)
        timing = Timing(period_ns=delay, start=ends["Startpoint"], end=ends["Endpoint"])
    if not activity:
        return timing, None
    # OpenSTA 2.0 takes the energies of both edges inside of a cell for each edge; later ones half.
    watts = {
        kind: float(internal) / 2 + float(switching) + float(leakage)
        for kind, internal, switching, leakage in _POWER.findall(said)
    }
    return timing, Power(
        sequential=1e3 * watts["Sequential"], combinational=1e3 * watts["Combinational"]
    )

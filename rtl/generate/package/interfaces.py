"""The ports of an accelerator as the interfaces that vendors' tools connect."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cli.errors import UserError

from rtl.generate.package.instances import Ports
from rtl.generate.verilog import TRACE

CLOCK, RESET, INTERRUPT = "clk", "rst", "interrupt"
LITE, FULL, STREAM = "AXI4-Lite", "AXI4", "AXI4-Stream"

_AXI = re.compile(r"(?P<name>(?P<way>[sm])_axi(?:s_[a-z]+)?)_(?P<signal>[a-z]+)")


@dataclass(frozen=True)
class Interface:
    """An AXI interface.

    Attributes
    ----------
    kind
        LITE, FULL or STREAM.
    manager
        Whether it begins transfers; else it answers them.
    ports
        Names of the ports by what AMBA calls them, in capitals.
    """

    name: str
    kind: str
    manager: bool
    ports: dict[str, str] = field(default_factory=dict)


def interfaces(ports: Ports) -> list[Interface]:
    """The AXI interfaces in the order of their ports.

    Raises
    ------
    ValueError
        A port belongs to no interface, and is no clock, reset, interrupt or trace.
    """
    found: dict[str, Interface] = {}
    for port in ports:
        match = _AXI.fullmatch(port)
        if match is None:
            if port not in (CLOCK, RESET, INTERRUPT) and not port.startswith(TRACE):
                raise UserError(f"the port {port} belongs to no interface")
            continue
        name, manager = match["name"], match["way"] == "m"
        memory = FULL if f"{name}_arlen" in ports else LITE
        kind = STREAM if name.startswith(f"{match['way']}_axis_") else memory
        one = found.setdefault(name, Interface(name, kind, manager))
        one.ports[match["signal"].upper()] = port
    return list(found.values())

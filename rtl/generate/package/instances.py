"""How to instantiate a module: in Verilog, and in VHDL with a component and an entity around it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Ports = Mapping[str, Mapping[str, Any]]
"""Facts of each port by its name, in order: `direction` and `width`, as the data sheet has them."""

_VHDL_NAME = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*")


def verilog(module: str, ports: Ports) -> str:
    """A net for each port but clock and reset, and the instance that joins them: to be pasted into
    a module."""
    lines = [f"// Instance of {module}, on the clk and rst of your design."]
    for name, facts in ports.items():
        if name in ("clk", "rst"):
            continue
        width = "" if facts["width"] == 1 else f"[{facts['width'] - 1}:0] "
        lines.append(f"wire {width}{name};  // {facts['direction']}")
    longest = max(map(len, ports))
    joined = ",\n".join(f"  .{name:<{longest}} ({name})" for name in ports)
    return "\n".join([*lines, "", f"{module} {module}_i (", joined, ");", ""])


def vhdl_name(name: str) -> str:
    """The name as VHDL takes it: between backslashes where it is no basic identifier."""
    return name if _VHDL_NAME.fullmatch(name) else f"\\{name}\\"


def _port_clause(ports: Ports) -> str:
    names = {name: vhdl_name(name) for name in ports}
    longest = max(map(len, names.values()))
    lines = []
    for name, facts in ports.items():
        way = "in " if facts["direction"] == "input" else "out"
        bits = facts["width"]
        kind = "std_logic" if bits == 1 else f"std_logic_vector({bits - 1} downto 0)"
        lines.append(f"      {names[name]:<{longest}} : {way} {kind}")
    return "    port (\n" + ";\n".join(lines) + "\n    );\n"


def vhdl(module: str, ports: Ports) -> str:
    """A package with the component, and an entity MODULE_vhdl that instantiates it as it stands."""
    name, clause = vhdl_name(module), _port_clause(ports)
    package, entity = vhdl_name(f"{module}_component"), vhdl_name(f"{module}_vhdl")
    names = [vhdl_name(port) for port in ports]
    longest = max(map(len, names))
    joined = ",\n".join(f"      {port:<{longest}} => {port}" for port in names)
    return (
        f"-- The Verilog module {module} for VHDL: a component, and an entity around it.\n"
        "library ieee;\nuse ieee.std_logic_1164.all;\n\n"
        f"package {package} is\n  component {name} is\n{clause}  end component;\n"
        f"end package;\n\n"
        "library ieee;\nuse ieee.std_logic_1164.all;\n"
        f"use work.{package}.all;\n\n"
        f"entity {entity} is\n{clause}end entity;\n\n"
        f"architecture verilog of {entity} is\nbegin\n"
        f"  {vhdl_name(f'{module}_i')} : component {name}\n    port map (\n{joined}\n    );\n"
        "end architecture;\n"
    )

"""A design ready for a simulator or a synthesiser: Verilog text, ports and data sheet."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass

from amaranth.hdl import Shape
from amaranth.lib import wiring

from rtl.generate.sheet import describe
from rtl.generate.units import unit
from rtl.generate.verilog import convert, ports
from rtl.interface.config import Config


@dataclass(frozen=True, kw_only=True)
class Port:
    """One port of the Verilog module."""

    is_input: bool
    width: int


@dataclass(frozen=True, kw_only=True)
class Design:
    """Verilog of a component and what its users have to know.

    Attributes
    ----------
    name
        Name of the Verilog module.
    configuration
        Short name of the configuration, for folders and tables: the lanes, and a digest when
        another choice differs from the default.
    verilog
        The whole text.
    ports
        Ports by name, clock and reset included.
    sheet
        JSON of ports, configuration and latency.
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
    text = json.dumps(dataclasses.asdict(config), sort_keys=True)
    return f"{config.lanes}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def described(component: wiring.Component, name: str, config: Config) -> Design:
    """The design of any component, one that is in no list included."""
    clocks = {port: Port(is_input=True, width=1) for port in ("clk", "rst")}
    own = {
        port: Port(is_input=is_input, width=Shape.cast(shape).width)
        for port, is_input, shape, _ in ports(component)
    }
    return Design(
        name=name,
        configuration=short_name(config),
        sheet=json.dumps(describe(component, name, config), indent=2) + "\n",
        verilog=convert(component, name),
        ports=clocks | own,
    )


def generated(name: str, config: Config) -> Design:
    """The design of a unit of rtl.generate.units; ValueError when there is none of that name."""
    return described(unit(name).build(config), name, config)

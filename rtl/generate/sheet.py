"""A unit as files: its Verilog, and a data sheet of ports, configuration and latency."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from cli.files import write_if_changed

from amaranth.lib import wiring

from rtl.generate.units import unit
from rtl.generate.verilog import convert, ports, shape_facts
from rtl.interface.config import Config


def describe(component: wiring.Component, name: str, config: Config) -> dict[str, object]:
    """Facts of a generated unit: module, ports, configuration and, when it has one, latency.

    A port has `direction` (input or output), `width` in bits, and either `signed` or, for packed
    arrays and structures, `element` and `length` or `fields` with their offsets, low bits first.
    """
    clocks: dict[str, object] = {
        port: {"direction": "input", "width": 1, "signed": False} for port in ("clk", "rst")
    }
    own: dict[str, object] = {
        port: {"direction": "input" if is_input else "output"} | shape_facts(shape)
        for port, is_input, shape, _ in ports(component)
    }
    facts: dict[str, object] = {
        "module": name,
        "configuration": dataclasses.asdict(config),
        "ports": clocks | own,
    }
    latency = getattr(component, "latency", None)
    if isinstance(latency, int):
        facts["latency"] = latency
    return facts


def generate(name: str, config: Config, folder: Path) -> tuple[Path, Path]:
    """Write NAME.v and NAME.json into `folder`; returns the two paths.

    A file whose text is there already is not touched.

    Raises
    ------
    ValueError
        No unit is called `name`, or the unit refuses the configuration.
    VerilogError
        The design cannot be written as Verilog.
    """
    component = unit(name).build(config)
    facts = describe(component, name, config)
    verilog, sheet = folder / f"{name}.v", folder / f"{name}.json"
    write_if_changed(verilog, convert(component, name))
    write_if_changed(sheet, json.dumps(facts, indent=2) + "\n")
    return verilog, sheet

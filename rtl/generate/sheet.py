"""A unit as files: its Verilog, and a data sheet of ports, configuration and latency."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

from cli.files import write_if_changed

from amaranth.lib import wiring

from rtl.generate.units import unit
from rtl.generate.verilog import TRACE, convert, ports, shape_facts
from rtl.interface.config import Config


def describe(
    component: wiring.Component, name: str, config: Config, *, trace: bool = True
) -> dict[str, object]:
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
        if trace or not port.startswith(TRACE)
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


def generate(
    name: str, config: Config, folder: Path, *, prefix: str = "", trace: bool = True
) -> tuple[Path, Path]:
    """Write PREFIXNAME.v and PREFIXNAME.json into `folder`; returns the two paths.

    A file whose text is there already is not touched.

    Parameters
    ----------
    prefix
        Begins the names of all modules, so that several configurations live in one design.
    trace
        False leaves the outputs trace_* away, which only benches need.

    Raises
    ------
    ValueError
        No unit is called `name`, the unit refuses the configuration, it has no trace to leave away,
        or `prefix` begins no name in Verilog.
    VerilogError
        The design cannot be written as Verilog.
    """
    if prefix and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", prefix):
        raise ValueError(
            f"prefix is {prefix!r}: it must be letters, digits and _, a letter or _ first"
        )
    component, module = unit(name).build(config), prefix + name
    text = convert(component, module, trace=trace)
    if not trace and not any(port.startswith(TRACE) for port, *_ in ports(component)):
        raise ValueError(f"{name} has no {TRACE}* ports: generate it without --no-trace")
    facts = describe(component, module, config, trace=trace)
    verilog, sheet = folder / f"{module}.v", folder / f"{module}.json"
    write_if_changed(verilog, text)
    write_if_changed(sheet, json.dumps(facts, indent=2) + "\n")
    return verilog, sheet

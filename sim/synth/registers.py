"""Registers of a netlist before it is mapped: their clock, resets and enables, as scan asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim.synth import sta

#: Yosys' registers that a rising edge of one clock sets, with a synchronous reset and an enable.
SYNCHRONOUS = ("$dff", "$dffe", "$sdff", "$sdffe", "$sdffce")
#: All that hold a state otherwise: asynchronous resets and loads, latches, registers of no clock.
OTHERS = (
    *("$adff", "$adffe", "$aldff", "$aldffe", "$dffsr", "$dffsre", "$dlatch", "$adlatch"),
    *("$dlatchsr", "$sr", "$ff", "$anyinit"),
)


@dataclass(frozen=True, kw_only=True)
class Registers:
    """Flip-flops before mapping: all, with a reset, with an enable; how many different enables."""

    bits: int
    reset: int
    enable: int
    enables: int


def registers(modules: Mapping[str, Any], top: str) -> Registers:
    """Of the coarse netlist (`osu018.coarse`) below `top`."""
    bits = reset = enable = 0
    enables = set()
    for kind, pins in sta.flat(modules, top).cells:
        if kind in SYNCHRONOUS:
            width = len(pins["Q"])
            bits += width
            reset += width if "SRST" in pins else 0
            enable += width if "EN" in pins else 0
            enables |= set(pins.get("EN", ()))
    return Registers(bits=bits, reset=reset, enable=enable, enables=len(enables))


def problems(modules: Mapping[str, Any], top: str) -> list[str]:
    """What keeps the netlist from one clock of rising edges, a line each; empty where nothing does.

    Every register and every memory has to take the port clk itself, rising.
    """
    found = []
    for name, module in modules.items():
        for cell_name, cell in module["cells"].items():
            kind, parameters = cell["type"], cell["parameters"]
            if kind in OTHERS:
                found.append(f"{name}.{cell_name}: {kind}")
            falling = int(parameters.get("CLK_POLARITY", "1"), 2) == 0
            if kind in SYNCHRONOUS and falling:
                found.append(f"{name}.{cell_name}: falling edges")
    flat = sta.flat(modules, top)
    clock = flat.ports["clk"][1] if "clk" in flat.ports else []
    for (_, pins), path in zip(flat.cells, flat.paths):
        if any(pins.get(pin, clock) != clock for pin in ("CLK", "clk")):
            found.append(f"{'.'.join(path)}: another clock")
    return found

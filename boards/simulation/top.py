"""The Verilog of the top of the ULX3S."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cli.machine import ROOT

from boards.gateware.system import Choices
from boards.gateware.ulx3s import NAME, Ulx3s
from rtl.accelerator_dma import AcceleratorDma
from rtl.dma.bus import Bus
from rtl.generate.verilog import LOWERING, convert_chip
from rtl.interface.config import Config
from sim.design import ROOMS, Design, digest_of, kept, short_name

MEGAHERTZ = 62.5
"""The clock of the board."""
SOURCES = digest_of(ROOT, (*ROOMS, "boards"))


def design_of(choices: Choices) -> Design:
    """The top with these choices; made once for each content of its sources."""
    short = f"{short_name(choices.config)}-{choices.megahertz:g}-{choices.bit}"
    return kept(f"{NAME}-{short}", f"{SOURCES} {choices}", lambda: made(choices, short))


def made(
    choices: Choices,
    short: str,
    accelerator: Callable[[Config, Bus], Any] = AcceleratorDma,
    lowering: str = LOWERING,
) -> Design:
    """The top, made now; `short` names its configuration."""
    top = Ulx3s(choices, accelerator)
    verilog = convert_chip(top, NAME, top.ports, lowering=lowering)
    return Design(name=NAME, configuration=short, verilog=verilog, ports={}, sheet="{}\n")

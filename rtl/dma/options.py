"""The choices of the memory bus as options of a command."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from cli.errors import UserError

from rtl.dma.bus import Bus


def add_bus_options(parser: argparse.ArgumentParser) -> None:
    """Add --dma, and one option for each field of Bus."""
    group = parser.add_argument_group("memory side")
    group.add_argument(
        "--dma",
        action="store_true",
        help="the accelerator reads stream and rows from memory itself, as an AXI4 master",
    )
    add_bus_sizes(group, "with --dma; ")


def add_bus_sizes(parser: Any, when: str = "") -> None:
    """Add one option for each field of Bus, whose help begins with `when`."""
    for field in dataclasses.fields(Bus):
        what = f"{when}default: {field.default}"
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(option, type=int, metavar="N", help=what)


def bus_of(options: argparse.Namespace) -> Bus | None:
    """The Bus that the options of `add_bus_options` name; None without --dma.

    Raises
    ------
    ValueError
        A choice of the bus without --dma, or as Bus says.
    """
    names = [field.name for field in dataclasses.fields(Bus)]
    values = {name: getattr(options, name, None) for name in names}
    given = {name: value for name, value in values.items() if value is not None}
    if options.dma:
        return Bus(**given)
    if given:
        option = next(iter(given)).replace("_", "-")
        raise UserError(f"--{option} is for the accelerator with --dma: give both or none")
    return None

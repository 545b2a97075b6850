"""The choices of the memory bus as options of a command."""

from __future__ import annotations

import argparse
import dataclasses

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
    for field in dataclasses.fields(Bus):
        group.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=int,
            metavar="N",
            help=f"with --dma; default: {field.default}",
        )


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

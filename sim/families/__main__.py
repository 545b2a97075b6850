"""`python -m sim.families`: what a unit takes of FPGAs beside the ECP5."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence

from cli.command import run_command
from cli.files import write_json
from cli.options import Parser, add_json
from cli.progress import stage

from rtl.interface.config import CONFIG_KEYS
from rtl.interface.options import add_config_options, config_of
from sim.design import generated
from sim.families.count import Counts, count
from sim.families.families import FAMILIES, KINDS
from sim.report import table

DESCRIPTION = """\
Resources of a unit on FPGAs beside the ECP5: one synthesis with Yosys per family, no placement.

Counts are of the unit alone, with trace ports. A LUT, a DSP and a block RAM are what the family
calls so; the lines below the table say what one is.
"""
EXAMPLES = """\
examples:
  python -m sim.families
  python -m sim.families accelerator --lanes 4 --tokens 128 --hidden 128 --ffn 512
  python -m sim.families softmax layernorm --family xilinx7 nexus --json build/families.json
"""


KEYS = {
    "[]": "each unit and family has the keys below",
    "family, unit": "names",
    **CONFIG_KEYS,
    "used{}": "LUT, FF, DSP and block RAM, as the family calls them",
    "cells{}": "by Yosys' types",
    "seconds": "wall time of the synthesis, when it was run",
}


def describe(counts: Sequence[Counts]) -> str:
    """The table, and below it what the kinds are of each family in it."""
    rows: list[list[object]] = [
        [
            each.unit,
            each.configuration["lanes"],
            each.family,
            *(each.used[kind] for kind in KINDS),
            each.seconds,
        ]
        for each in counts
    ]
    lines = [table(["unit", "lanes", "family", *KINDS, "seconds"], rows), ""]
    for name in dict.fromkeys(each.family for each in counts):
        family = FAMILIES[name]
        lines.append(
            f"{name}: {family.title}. LUT: {family.lut}. DSP: {family.dsp}. Block RAM: {family.ram}"
        )
    return "\n".join(lines)


def _parser() -> Parser:
    result = Parser("sim.families", DESCRIPTION, EXAMPLES)
    result.add_argument(
        "units", nargs="*", metavar="UNIT", default=["accelerator"], help="default: accelerator"
    )
    result.add_argument(
        "--family",
        nargs="+",
        choices=list(FAMILIES),
        default=list(FAMILIES),
        metavar="NAME",
        help=f"{', '.join(FAMILIES)} (default: all)",
    )
    add_json(result, KEYS)
    add_config_options(result)
    return result


def _run(options: argparse.Namespace) -> None:
    config = config_of(options)
    designs = [generated(unit, config) for unit in options.units]
    counts = [each for design in designs for each in count(design, options.family, stage)]
    if options.json is not None:
        write_json(options.json, [dataclasses.asdict(each) for each in counts])
    print(describe(counts))


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())

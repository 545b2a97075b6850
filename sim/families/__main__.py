"""`python -m sim.families`: what a unit takes of FPGAs beside the ECP5, and Fmax on one of them."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence

from cli.command import run_command
from cli.files import write_json
from cli.options import Parser, add_json, add_seed
from cli.progress import stage

from rtl.interface.options import add_config_options, config_of
from sim.design import generated
from sim.families.count import Counts, count
from sim.families.families import FAMILIES, KINDS
from sim.families.nexus import AVAILABLE, GRADES, Routed, route
from sim.report import table

DESCRIPTION = """\
What a unit takes of FPGAs beside the ECP5: one synthesis with Yosys a family, nothing placed.

Counts are of the unit alone, with trace ports. A LUT, a DSP and a block RAM are what the family
calls so; the lines below the table say what one is.

With --route nexus the unit is placed and routed on a Lattice LIFCL-40 instead, between two shift
registers as `python -m sim.synth` has it on the ECP5, which takes half an hour for the accelerator.
"""
EXAMPLES = """\
examples:
  python -m sim.families
  python -m sim.families accelerator --lanes 4 --tokens 128 --hidden 128 --ffn 512
  python -m sim.families softmax layernorm --family xilinx7 nexus --json build/families.json
  python -m sim.families accelerator --lanes 4 --route nexus
"""


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


def describe_routed(routed: Routed) -> str:
    """Resources of the part, Fmax, and the slowest path below."""
    rows: list[list[object]] = [
        [kind, number, AVAILABLE[kind], f"{100 * number / AVAILABLE[kind]:.1f} %"]
        for kind, number in routed.used.items()
    ]
    timing = routed.timing
    lines = [
        f"{routed.unit}, lanes {routed.configuration['lanes']}, {routed.part}",
        table(["resource", "used", "of the part", "share"], rows),
        "",
        f"Fmax, routed, register to register: {timing.fmax_mhz:.1f} MHz, seed {timing.seed}",
        f"worst path: {timing.logic_ns:.2f} ns logic, {timing.routing_ns:.2f} ns routing, "
        + " -> ".join(timing.path),
        f"{routed.seconds:,.0f} seconds",
    ]
    return "\n".join(lines)


def _parser() -> Parser:
    result = Parser("sim.families", DESCRIPTION, EXAMPLES)
    result.add_argument(
        "units", nargs="*", metavar="UNIT", default=["accelerator"], help="default: accelerator"
    )
    which = result.add_mutually_exclusive_group()
    which.add_argument(
        "--family",
        nargs="+",
        choices=list(FAMILIES),
        default=list(FAMILIES),
        metavar="NAME",
        help=f"{', '.join(FAMILIES)} (default: all)",
    )
    which.add_argument(
        "--route",
        choices=["nexus"],
        metavar="NAME",
        help="nexus: place and route there, in place of the counts",
    )
    result.add_argument(
        "--grade", choices=GRADES, default=GRADES[0], help="of --route: speed grade, 9 (fastest)"
    )
    add_seed(result, "of --route: the placement", default=1)
    add_json(result)
    add_config_options(result)
    return result


def _run(options: argparse.Namespace) -> None:
    config = config_of(options)
    designs = [generated(unit, config) for unit in options.units]
    if options.route is not None:
        placed = [route(d, grade=options.grade, seed=options.seed, say=stage) for d in designs]
        if options.json is not None:
            write_json(options.json, [dataclasses.asdict(each) for each in placed])
        print("\n\n".join(map(describe_routed, placed)))
        return
    counts = [each for design in designs for each in count(design, options.family, stage)]
    if options.json is not None:
        write_json(options.json, [dataclasses.asdict(each) for each in counts])
    print(describe(counts))


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())

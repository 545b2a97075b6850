"""`python -m sim.synth`: what a unit costs and how fast it is on a Lattice ECP5."""

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
from sim.report import table
from sim.synth.ecp5 import AVAILABLE, PLACERS, Cost, synthesise

DESCRIPTION = """\
What a unit costs and how fast it is on a Lattice ECP5 (LFE5U-85F, CABGA381, speed grade 6).

Yosys counts LUTs, flip-flops, multipliers and block RAMs of the unit alone; nextpnr places and
routes it between two shift registers, so that its ports fit the package and every path of the unit
starts and ends in a register.
"""
EXAMPLES = """\
examples:
  python -m sim.synth softmax --lanes 8
  python -m sim.synth matmul --lanes 8 --no-route
  python -m sim.synth accelerator --lanes 4 --parts --placements 4 --json build/synth4.json
"""


def describe(cost: Cost, parts: bool = False) -> str:
    """The figures as a table, with the worst path below; `parts` adds a table of the parts."""
    rows: list[list[object]] = [
        [name, used, AVAILABLE[name], f"{100 * used / AVAILABLE[name]:.1f} %"]
        for name, used in cost.resources.items()
    ]
    lines = [table(["resource", "used", "of the part", "share"], rows)]
    if parts:
        body: list[list[object]] = [[name, *used.values()] for name, used in cost.parts.items()]
        lines += ["", table(["part", *AVAILABLE], body)]
    if cost.timing is not None:
        timing = cost.timing
        share = f"{timing.logic_ns:.2f} ns logic, {timing.routing_ns:.2f} ns routing"
        lines += [
            "",
            f"Fmax {timing.fmax_mhz:.1f} MHz, routed, register to register ({share})",
            "worst path: " + " -> ".join(timing.path),
        ]
        if len(cost.fmax_by_seed) > 1:
            found = ", ".join(f"{seed}: {fmax}" for seed, fmax in cost.fmax_by_seed.items())
            lines.append(f"the fastest of {len(cost.fmax_by_seed)} placements (seed: MHz): {found}")
    return "\n".join(lines)


def _parser() -> Parser:
    result = Parser("sim.synth", DESCRIPTION, EXAMPLES)
    result.add_argument("unit", help="which unit; `python -m rtl.generate --list` shows them")
    result.add_argument("--no-route", action="store_true", help="count resources only")
    result.add_argument("--parts", action="store_true", help="resources of each part, too")
    result.add_argument("--freq", type=float, default=100, metavar="MHZ", help="target, 100")
    add_seed(result, "the first placement", default=1)
    result.add_argument(
        "--placements",
        type=int,
        default=1,
        choices=range(1, 33),
        metavar="N",
        help="seeds to try, 1 to 32; the fastest counts, 1",
    )
    result.add_argument("--placer", choices=PLACERS, default=PLACERS[0], help="static")
    add_json(result)
    add_config_options(result)
    return result


def _run(options: argparse.Namespace) -> None:
    design = generated(options.unit, config_of(options))
    cost = synthesise(
        design,
        route=not options.no_route,
        freq=options.freq,
        placer=options.placer,
        seeds=range(options.seed, options.seed + options.placements),
        say=stage,
    )
    if options.json is not None:
        write_json(options.json, dataclasses.asdict(cost))
    print(f"{cost.unit}, lanes {cost.configuration['lanes']}, LFE5U-85F speed grade 6")
    print(describe(cost, options.parts))


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())

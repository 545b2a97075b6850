"""`python -m sim.synth`: what a unit costs and how fast it is on a Lattice ECP5."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence

from cli.command import run_command
from cli.files import write_json
from cli.keys import under
from cli.options import Parser, add_json, add_seed, positive
from cli.progress import stage

from rtl.interface.config import array
from rtl.interface.options import add_config_options, config_of
from sim.design import generated
from sim.estimate.fits import Part, parts
from sim.report import table
from sim.synth.ecp5 import COST_KEYS, ROWS, Cost, synthesise
from sim.synth.place import PART, PARTS, PLACERS, ROUTERS, Timing
from sim.synth.throughput import LAYERS, THROUGHPUT_KEYS, Throughput, throughput

DESCRIPTION = """\
Resources and clock of a unit on a Lattice ECP5 (CABGA381, speed grade 6).

Yosys counts LUTs, flip-flops, multipliers and block RAMs of the unit alone. Registers next to
multipliers and block RAMs are folded into them, logic before carry chains into these. nextpnr
places and routes the unit between two shift registers, so that its ports fit the package and every
path of the unit starts and ends in a register. Fmax depends on the placement's seed: the median of
several counts.
"""
EXAMPLES = """\
examples:
  python -m sim.synth softmax --lanes 8
  python -m sim.synth matmul --lanes 8 --no-route
  python -m sim.synth accelerator --lanes 4 --columns 16 --part LFE5U-45
  python -m sim.synth accelerator --lanes 4 --parts --placements 3 --json build/synth4.json
"""


KEYS = {
    "part": "the FPGA",
    **COST_KEYS,
    "fmax_mhz.median, .worst, .by_seed{}": "MHz; null where not ended, and with --no-route",
    "throughput": "of a routed accelerator; else null",
    **under("throughput.", THROUGHPUT_KEYS),
}


def describe(cost: Cost, part: Part, parts: bool = False) -> str:
    """The figures as a table, with the worst path below; `parts` adds a table of the unit's parts.

    part
        The FPGA of whose resources the shares are.
    """
    there = part.resources | {"LUT4": part.resources["LUT"]}
    rows: list[list[object]] = [
        [name, used, there[name], f"{100 * used / there[name]:.1f} %"]
        for name, used in cost.resources.items()
    ]
    lines = [
        table(["resource", "used", "of the part", "share"], rows),
        "",
        f"Carry chains have taken in {cost.absorbed} LUTs.",
        f"{cost.folded.flip_flops} of the FF lie inside: {cost.folded.block_ram_outputs} output "
        f"registers of block RAMs, {cost.folded.dsp_outputs} of DSPs, and the operands of "
        f"{cost.folded.dsp_inputs} DSPs; {cost.folded.copies} are copies, one a DSP",
    ]
    if parts:
        body: list[list[object]] = [[name, *used.values()] for name, used in cost.parts.items()]
        lines += ["", table(["part", *ROWS], body)]
    if cost.timings or cost.unended:
        by_seed: list[list[object]] = [
            [
                timing.seed,
                f"{timing.fmax_mhz:.1f}",
                f"{timing.logic_ns:.2f}",
                f"{timing.routing_ns:.2f}",
                " -> ".join(timing.path),
            ]
            for timing in cost.timings
        ]
        by_seed += [[seed, "not ended", "", "", ""] for seed in cost.unended]
        head = ["seed", "Fmax (MHz)", "logic (ns)", "routing (ns)", "worst path"]
        lines += ["", table(head, by_seed)]
        lines += [
            "",
            f"Fmax, routed, register to register: median {_mhz(cost.median)}, worst "
            f"{_mhz(cost.worst)}, {_seeds(len(by_seed))}",
        ]
    return "\n".join(lines)


def _mhz(timing: Timing | None) -> str:
    return "not ended" if timing is None else f"{timing.fmax_mhz:.1f} MHz"


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def describe_throughput(speed: Throughput) -> str:
    return (
        f"At the median: {speed.milliseconds:.2f} ms a sentence of {speed.tokens} tokens "
        f"({speed.cycles:,} cycles, {LAYERS} layers as large as the limits), "
        f"{speed.a_second:,.1f} sentences a second; {speed.gops:.2f} GOPS, "
        f"{speed.gops_a_dsp:.3f} a DSP (two operations a MAC, padding left out)"
    )


def figures(cost: Cost, speed: Throughput | None) -> dict[str, object]:
    """All that is printed, for programs."""
    fmax = None
    if cost.timings or cost.unended:
        fmax = {
            "median": None if cost.median is None else cost.median.fmax_mhz,
            "worst": None if cost.worst is None else cost.worst.fmax_mhz,
            "by_seed": {str(timing.seed): timing.fmax_mhz for timing in cost.timings},
        }
    return dataclasses.asdict(cost) | {
        "fmax_mhz": fmax,
        "throughput": None if speed is None else dataclasses.asdict(speed),
    }


def _parser() -> Parser:
    result = Parser("sim.synth", DESCRIPTION, EXAMPLES)
    result.add_argument("unit", help="which unit; `python -m rtl.generate --list` shows them")
    result.add_argument("--no-route", action="store_true", help="count resources only")
    result.add_argument("--parts", action="store_true", help="also resources of each part")
    result.add_argument("--part", choices=PARTS, default=PART, help=f"default: {PART}")
    result.add_argument("--freq", type=float, default=100, metavar="MHZ", help="target, 100")
    add_seed(result, "the first placement", default=1)
    result.add_argument(
        "--placements",
        type=int,
        default=1,
        choices=range(1, 33),
        metavar="N",
        help="seeds to place with, 1 to 32; the median counts, 1",
    )
    result.add_argument("--placer", choices=PLACERS, default=PLACERS[0], help="static")
    result.add_argument("--router", choices=ROUTERS, default=ROUTERS[0], help="router1")
    result.add_argument(
        "--patience",
        type=positive,
        default=60,
        metavar="MINUTES",
        help="after which a placement is stopped and counts as the slowest, 60",
    )
    add_json(result, KEYS)
    add_config_options(result)
    return result


def _run(options: argparse.Namespace) -> None:
    config = config_of(options)
    design = generated(options.unit, config)
    cost = synthesise(
        design,
        route=not options.no_route,
        part=options.part,
        freq=options.freq,
        placer=options.placer,
        router=options.router,
        patience=60 * options.patience,
        seeds=range(options.seed, options.seed + options.placements),
        say=stage,
    )
    speed = None
    if cost.median is not None and design.name == "accelerator":
        speed = throughput(config, cost.median.fmax_mhz, cost.resources["DSP"])
    if options.json is not None:
        write_json(options.json, {"part": options.part} | figures(cost, speed))
    (part,) = (one for one in parts() if one.name == options.part)
    shape = array(config.lanes, config.tile_columns)
    print(f"{cost.unit}, {shape}, {part.name}F speed grade 6")
    print(describe(cost, part, options.parts))
    if speed is not None:
        print(describe_throughput(speed))


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())

"""`python -m sim.synth`: what a unit takes of an FPGA, or of silicon, and how fast it is."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence

from cli.command import run_command
from cli.files import write_json
from cli.options import Parser, add_json, add_seed, positive
from cli.progress import stage
from cli.words import counted

from rtl.interface.config import Config, array
from rtl.interface.options import add_config_options, config_of
from sim.design import Design, generated
from sim.estimate import fits
from sim.report import table
from sim.synth import osu018, xilinx7
from sim.synth.ecp5 import (
    ROWS,
    Cost,
    synthesise,
)
from sim.synth.osu018 import (
    SLOW,
    TARGET,
    Silicon,
)
from sim.synth.place import PART, PARTS, PLACERS, ROUTERS, Timing
from sim.synth.throughput import (
    LAYERS,
    Throughput,
    throughput,
)

ECP5 = "ecp5"
TARGETS = (ECP5, xilinx7.TARGET, TARGET)

DESCRIPTION = f"""\
Synthesis of a unit for an FPGA or for standard cells, with Yosys.

--target ecp5 (the default): LUTs, flip-flops, multipliers and block RAMs of a Lattice ECP5
(CABGA381, speed grade 6). Registers next to multipliers and block RAMs are folded into them, logic
before carry chains into these. nextpnr places and routes the unit between two shift registers, so
that its ports fit the package and every path of the unit starts and ends in a register. Fmax
depends on the placement's seed: the median of several counts.

{xilinx7.TARGET}: the same counts on AMD's 7 series, without a placement.

{TARGET}: area and clock in OSU's standard cells for a 0.18 um process, which
`apt-get install qflow-tech-osu018 opensta` brings. RAMs and ROMs are counted in bits: they are
macros on a chip. Gates are sized and buffered for --freq in the slow corner, which is assumed to be
{SLOW} times as slow as the library's only one. The clock is that of cells without wires and clock
tree.

All counts are of the unit alone, with trace ports.
"""
EXAMPLES = """\
examples:
  python -m sim.synth softmax --lanes 8
  python -m sim.synth matmul --lanes 8 --no-route
  python -m sim.synth accelerator --lanes 4 --columns 16 --part LFE5U-45
  python -m sim.synth accelerator --lanes 4 --parts --placements 3 --json build/synth4.json
  python -m sim.synth accelerator --target xilinx7 --lanes 4 --tokens 128 --hidden 128 --ffn 512
  python -m sim.synth matmul --target osu018 --lanes 4
"""
#: Options that not all targets have: which have them, and the default there.
LIMITED: dict[str, tuple[tuple[str, ...], object]] = {
    "no_route": ((ECP5,), False),
    "part": ((ECP5,), PART),
    "seed": ((ECP5,), 1),
    "placements": ((ECP5,), 1),
    "placer": ((ECP5,), PLACERS[0]),
    "router": ((ECP5,), ROUTERS[0]),
    "patience": ((ECP5,), 60),
    "freq": ((ECP5, TARGET), 100.0),
    "parts": ((ECP5,), False),
}

FREQ = (1.0, 1000.0)
"""Least and most MHz of --freq."""


def describe(cost: Cost, part: fits.Part, parts: bool = False) -> str:
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
    return counted(count, "seeds")


def describe_throughput(speed: Throughput) -> str:
    return (
        f"At the median: {speed.milliseconds:.2f} ms a text of {speed.tokens:,} tokens "
        f"({speed.cycles:,} cycles, {LAYERS} layers as large as the limits), "
        f"{speed.a_second:,.1f} texts a second; {speed.gops:.2f} GOPS, "
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


def describe_silicon(found: Silicon) -> str:
    """Area, memories and clock."""
    bits = ", ".join(f"{number:,} bits of {kind}" for kind, number in found.memory_bits.items())
    lines = [
        f"cells: {found.kge:.1f} kGE, {found.mm2:.3f} mm2",
        f"memories: {bits}; of these register files alone are among the cells",
    ]
    if found.typical_mhz is not None:
        lines.append(
            f"clock: {found.typical_mhz:.1f} MHz typical, "
            f"{found.slow_mhz:.1f} MHz in the slow corner"
        )
    return "\n".join(lines)


def _parser() -> Parser:
    result = Parser("sim.synth", DESCRIPTION, EXAMPLES)
    result.add_argument("unit", help="which unit; `python -m rtl.generate --list` shows them")
    result.add_argument(
        "--target",
        choices=TARGETS,
        default=ECP5,
        metavar="NAME",
        help=f"{', '.join(TARGETS)} (default: {ECP5})",
    )
    result.add_argument(
        "--freq", type=float, metavar="MHZ", help="target; for osu018 in the slow corner, 100"
    )
    routed = result.add_argument_group(f"of {ECP5} alone")
    routed.add_argument("--parts", action="store_true", default=None, help="also figures of parts")
    routed.add_argument(
        "--no-route", action="store_true", default=None, help="count resources only"
    )
    routed.add_argument("--part", choices=PARTS, help=f"default: {PART}")
    add_seed(routed, "the first placement", default=1)
    routed.add_argument(
        "--placements",
        type=int,
        choices=range(1, 33),
        metavar="N",
        help="seeds to place with, 1 to 32; the median counts, 1",
    )
    routed.add_argument("--placer", choices=PLACERS, help="static")
    routed.add_argument("--router", choices=ROUTERS, help="router1")
    routed.add_argument(
        "--patience",
        type=positive,
        metavar="MINUTES",
        help="after which a placement is stopped and counts as the slowest, 60",
    )
    result.set_defaults(seed=None)
    add_json(result)
    add_config_options(result)
    return result


def _settle(parser: Parser, options: argparse.Namespace) -> None:
    """Refuse an option that the target does not have; the others get their defaults."""
    for name, (targets, default) in LIMITED.items():
        if getattr(options, name) is None:
            setattr(options, name, default)
        elif options.target not in targets:
            parser.error(
                f"argument --{name.replace('_', '-')}: the target {options.target} has none, only "
                f"{' and '.join(targets)}"
            )
    if options.freq is not None and not FREQ[0] <= options.freq <= FREQ[1]:
        low, high = FREQ
        parser.error(f"argument --freq: {options.freq:g} is out of range: {low:g} to {high:g} MHz")


def _run(parser: Parser, options: argparse.Namespace) -> None:
    _settle(parser, options)
    config = config_of(options)
    design = generated(options.unit, config)
    shape = array(config.lanes, config.tile_columns)
    if options.target == ECP5:
        _ecp5(design, config, options)
        return
    found: xilinx7.Counts | Silicon
    if options.target == TARGET:
        found = osu018.synthesise(design, freq=options.freq, say=stage)
        title, told = "OSU 0.18 um standard cells", describe_silicon(found)
    else:
        found = xilinx7.count(design, stage)
        row = [found.resources[kind] for kind in xilinx7.KINDS]
        title = "Xilinx 7 series"
        told = f"{table(list(xilinx7.KINDS), [row])}\n\n{xilinx7.NOTE}"
    if options.json is not None:
        write_json(options.json, dataclasses.asdict(found))
    print(f"{found.unit}, {shape}, {title}")
    print(told)


def _ecp5(design: Design, config: Config, options: argparse.Namespace) -> None:
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
        write_json(options.json, {"target": ECP5, "part": options.part} | figures(cost, speed))
    part = fits.PARTS[options.part]
    shape = array(config.lanes, config.tile_columns)
    print(f"{cost.unit}, {shape}, {part.name}F speed grade 6")
    print(describe(cost, part, options.parts))
    if speed is not None:
        print(describe_throughput(speed))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    return run_command(lambda: _run(parser, parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())

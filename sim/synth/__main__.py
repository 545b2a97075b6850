"""`python -m sim.synth`: what a unit takes of an FPGA, or of silicon, and how fast it is."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

from cli.command import run_command
from cli.files import write_json
from cli.options import Parser, add_json, add_seed, positive
from cli.words import counted

from rtl.interface.config import Config, array
from rtl.interface.options import add_config_options, config_of
from sim.design import Design, generated
from sim.estimate import fits
from sim.estimate.performance import example, performance
from sim.report import table
from sim.synth import osu018, xilinx7
from sim.synth.ecp5 import Cost, synthesise
from sim.synth.osu018 import SLOW, TARGET
from sim.synth.place import PART, PARTS, PLACERS, ROUTERS, Timing

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
  python -m sim.synth accelerator --lanes 4 --placements 3 --json build/synth4.json
  python -m sim.synth accelerator --target xilinx7 --lanes 4 --tokens 128 --hidden 128 --ffn 512
  python -m sim.synth matmul --target osu018 --lanes 4
"""
#: Options of the ECP5 alone, and their defaults; the standard cells have the first one, too.
LIMITED: dict[str, object] = {
    "freq": 100.0,
    "no_route": False,
    "part": PART,
    "seed": 1,
    "placements": 1,
    "placer": PLACERS[0],
    "router": ROUTERS[0],
    "patience": 60,
}
PLACING = ("part", "freq", "placer", "router")
FREQ = (1.0, 1000.0)
"""Least and most MHz of --freq."""
LAYERS = 2
"""Of the encoder whose throughput is told."""


def describe(cost: Cost, part: fits.Part) -> str:
    """The figures as a table, with the worst path below.

    part: the FPGA of whose resources the shares are.
    """
    there, folded = part.resources | {"LUT4": part.resources["LUT"]}, cost.folded
    rows = [
        [name, used, there[name], f"{100 * used / there[name]:.1f} %"]
        for name, used in cost.resources.items()
    ]
    lines = [
        table(["resource", "used", "of the part", "share"], rows),
        "",
        f"Carry chains have taken in {cost.absorbed} LUTs.",
        f"{folded.flip_flops} of the FF lie inside: {folded.block_ram_outputs} output registers of "
        f"block RAMs, {folded.dsp_outputs} of DSPs, and the operands of {folded.dsp_inputs} DSPs; "
        f"{folded.copies} are copies, one a DSP",
    ]
    by_seed: list[list[object]] = []
    for t in cost.timings:
        times = f"{t.fmax_mhz:.1f}", f"{t.logic_ns:.2f}", f"{t.routing_ns:.2f}"
        by_seed.append([t.seed, *times, " -> ".join(t.path)])
    by_seed += [[seed, "not ended", "", "", ""] for seed in cost.unended]
    if by_seed:
        head = ["seed", "Fmax (MHz)", "logic (ns)", "routing (ns)", "worst path"]
        fmax = f"median {_mhz(cost.median)}, worst {_mhz(cost.worst)}"
        seeds = counted(len(by_seed), "seeds")
        lines += ["", table(head, by_seed)]
        lines += ["", f"Fmax, routed, register to register: {fmax}, {seeds}"]
    return "\n".join(lines)


def _mhz(timing: Timing | None) -> str:
    return "not ended" if timing is None else f"{timing.fmax_mhz:.1f} MHz"


def throughput(config: Config, clock_mhz: float, dsps: int) -> dict[str, Any]:
    """One inference after the other of an encoder of LAYERS layers as large as the limits.

    `clock_mhz` is the median of the placements. An operation is half a MAC, without padding.
    """
    told = performance(config, example(config, LAYERS), clock_mhz)
    gops = 2 * told["utilisation"] * config.macs * clock_mhz / 1e3
    same = ("tokens", "cycles", "milliseconds", "a_second")
    found = {"clock_mhz": clock_mhz} | {name: told[name] for name in same}
    return found | {"gops": gops, "gops_a_dsp": gops / dsps}


def describe_throughput(speed: dict[str, Any]) -> str:
    return (
        "At the median: {milliseconds:.2f} ms a text of {tokens:,} tokens ({cycles:,} cycles, "
        f"{LAYERS} layers as large as the limits), "
        "{a_second:,.1f} texts a second; {gops:.2f} GOPS, {gops_a_dsp:.3f} a DSP (two operations a "
        "MAC, padding left out)"
    ).format(**speed)


def figures(cost: Cost, speed: dict[str, Any] | None) -> dict[str, object]:
    """All that is printed, for programs."""
    fmax = {
        "median": cost.median and cost.median.fmax_mhz,
        "worst": cost.worst and cost.worst.fmax_mhz,
        "by_seed": {str(timing.seed): timing.fmax_mhz for timing in cost.timings},
    }
    return dataclasses.asdict(cost) | {
        "fmax_mhz": fmax if cost.timings or cost.unended else None,
        "throughput": speed,
    }


def describe_silicon(found: dict[str, Any]) -> str:
    """Area, memories and clock."""
    bits = ", ".join(f"{number:,} bits of {kind}" for kind, number in found["memory_bits"].items())
    told = (
        f"cells: {found['kge']:.1f} kGE, {found['mm2']:.3f} mm2\n"
        f"memories: {bits}; of these register files alone are among the cells"
    )
    if found["typical_mhz"] is None:
        return told
    typical, slow = found["typical_mhz"], found["slow_mhz"]
    return f"{told}\nclock: {typical:.1f} MHz typical, {slow:.1f} MHz in the slow corner"


def _parser() -> Parser:
    result = Parser("sim.synth", DESCRIPTION, EXAMPLES)
    result.add_argument("unit", help="which unit; `python -m rtl.generate --list` shows them")
    what = f"{', '.join(TARGETS)} (default: {ECP5})"
    result.add_argument("--target", choices=TARGETS, default=ECP5, metavar="NAME", help=what)
    what = "target; for osu018 in the slow corner, 100"
    result.add_argument("--freq", type=float, metavar="MHZ", help=what)
    routed = result.add_argument_group(f"of {ECP5} alone")
    flag: Any = {"action": "store_true", "default": None}
    routed.add_argument("--no-route", help="count resources only", **flag)
    routed.add_argument("--part", choices=PARTS, help=f"default: {PART}")
    add_seed(routed, "the first placement", default=1)
    what, some = "seeds to place with, 1 to 32; the median counts, 1", range(1, 33)
    routed.add_argument("--placements", type=int, choices=some, metavar="N", help=what)
    routed.add_argument("--placer", choices=PLACERS, help="static")
    routed.add_argument("--router", choices=ROUTERS, help="router1")
    what = "after which a placement is stopped and counts as the slowest, 60"
    routed.add_argument("--patience", type=positive, metavar="MINUTES", help=what)
    result.set_defaults(seed=None)
    add_json(result)
    add_config_options(result)
    return result


def _settle(parser: Parser, options: argparse.Namespace) -> None:
    """Refuse an option that the target does not have; the others get their defaults."""
    for name, default in LIMITED.items():
        targets = (ECP5, TARGET) if name == "freq" else (ECP5,)
        if getattr(options, name) is None:
            setattr(options, name, default)
        elif options.target not in targets:
            why = f"the target {options.target} has none, only {' and '.join(targets)}"
            parser.error(f"argument --{name.replace('_', '-')}: {why}")
    low, high = FREQ
    if not low <= options.freq <= high:
        parser.error(f"argument --freq: {options.freq:g} is out of range: {low:g} to {high:g} MHz")


def _run(parser: Parser, options: argparse.Namespace) -> None:
    _settle(parser, options)
    config = config_of(options)
    design = generated(options.unit, config)
    if options.target == ECP5:
        title, told, found = _ecp5(design, config, options)
    elif options.target == TARGET:
        found = osu018.synthesise(design, freq=options.freq)
        title, told = "OSU 0.18 um standard cells", describe_silicon(found)
    else:
        found, title = xilinx7.count(design), "Xilinx 7 series"
        row = [found["resources"][kind] for kind in xilinx7.KINDS]
        told = f"{table(xilinx7.KINDS, [row])}\n\n{xilinx7.NOTE}"
    if options.json is not None:
        write_json(options.json, found)
    print(f"{design.name}, {array(config.lanes, config.tile_columns)}, {title}")
    print(told)


def _ecp5(
    design: Design, config: Config, options: argparse.Namespace
) -> tuple[str, str, dict[str, Any]]:
    """The part, what is printed, and the figures."""
    cost = synthesise(
        design,
        route=not options.no_route,
        seeds=range(options.seed, options.seed + options.placements),
        patience=60 * options.patience,
        **{name: getattr(options, name) for name in PLACING},
    )
    part, speed = fits.PARTS[options.part], None
    told = describe(cost, part)
    if cost.median is not None and design.name == "accelerator":
        speed = throughput(config, cost.median.fmax_mhz, cost.resources["DSP"])
        told += f"\n{describe_throughput(speed)}"
    written = {"target": ECP5, "part": options.part} | figures(cost, speed)
    return f"{part.name}F speed grade 6", told, written


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    return run_command(lambda: _run(parser, parser.parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())

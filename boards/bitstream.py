"""`python -m boards.bitstream`: the bitstream of the ULX3S, from Verilog to a .bit file.

Yosys maps the board's top, registers next to multipliers and block RAMs are folded into them,
nextpnr places and routes it to the pins, ecppack writes the bitstream. Where the clock that the
board uses is not met there is no bitstream: another seed may meet it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.command import Different, ToolError, run_command
from cli.files import locked, replacing, write_if_changed, write_json
from cli.machine import BUILD, ROOT
from cli.options import Parser, add_json, add_seed
from cli.progress import stage

from boards.gateware.system import IMAGE_IN_FLASH, Choices
from boards.gateware.ulx3s import CRYSTAL_MHZ, NAME
from boards.simulation.top import MEGAHERTZ, design_of
from rtl.interface.config import (
    array,
)
from rtl.interface.options import add_config_options, config_of
from sim.synth.passes import improve_file
from sim.synth.place import PART, PLACERS, ROUTERS, device
from sim.synth.tools import flat, run_tool, run_yosys

PINS = ROOT / "boards" / "gateware" / "ulx3s.lpf"
FOLDER = BUILD / "ulx3s"
OUT = FOLDER / "ulx3s.bit"
EXAMPLES = """\
examples:
  python -m boards.bitstream
  python -m boards.bitstream --seed 2 -o build/ulx3s-2.bit
  python -m boards.bitstream --no-route       maps and packs: does it fit
"""
USED = re.compile(r"^Info:\s+(\w+):\s+(\d+)/\s*(\d+)\s+\d+%$", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _parser() -> Parser:
    result = Parser("boards.bitstream", "The bitstream of the ULX3S with an ECP5-85F.", EXAMPLES)
    result.add_argument(
        "-o", "--out", type=Path, default=OUT, metavar="FILE", help=f"default: {OUT}"
    )
    result.add_argument(
        "--megahertz",
        type=float,
        default=MEGAHERTZ,
        metavar="F",
        help=f"the clock of everything, which the PLL makes of {CRYSTAL_MHZ} MHz "
        f"(default: {MEGAHERTZ:g})",
    )
    result.add_argument("--no-route", action="store_true", help="map and pack, no bitstream")
    result.add_argument("--placer", choices=PLACERS, default=PLACERS[0], help="static")
    result.add_argument("--router", choices=ROUTERS, default=ROUTERS[0], help="router1")
    add_seed(result, "the placement", default=1)
    add_json(result)
    add_config_options(result)
    return result


def slowest(report: dict[str, Any]) -> tuple[float, float]:
    """Of nextpnr's report, the clock with the least room: MHz achieved and asked.

    Raises
    ------
    ToolError
        It knows no clock.
    """
    clocks = [(clock["achieved"], clock["constraint"]) for clock in report["fmax"].values()]
    if not clocks:
        raise ToolError("nextpnr found no clock in the design")
    return min(clocks, key=lambda clock: clock[0] / clock[1])


def used(log: str) -> dict[str, tuple[int, int]]:
    """What nextpnr's log says of the part: cells used and there, by kind."""
    return {kind: (int(some), int(all_)) for kind, some, all_ in USED.findall(log) if int(some)}


def _run(options: argparse.Namespace) -> int:
    config = config_of(options)
    choices = Choices(config=config, megahertz=options.megahertz)
    shape = array(config.lanes, config.tile_columns)
    stage(f"the Verilog of the board with {shape} at {choices.megahertz:g} MHz")
    design = design_of(choices)
    with locked(FOLDER / "lock"):
        figures = _made(options, choices, design.verilog)
    if options.json:
        write_json(options.json, figures)
    return 0


def _made(options: argparse.Namespace, choices: Choices, verilog: str) -> dict[str, Any]:
    """Map, place and route and pack in `FOLDER`, as far as the options ask; the figures."""
    write_if_changed(FOLDER / f"{NAME}.v", verilog)
    stage(f"synthesis (log: {FOLDER / 'yosys.log'})")
    # Flat and without names of its own but the pins': the board's meet those that ABC's result
    # brings, and Yosys 0.70 stops (an assertion of abc_ops_reintegrate).
    read = f"read_verilog {NAME}.v; {flat(NAME)}; rename -hide"
    run_yosys(read, NAME, f"write_json {NAME}.json", FOLDER)
    improve_file(FOLDER / f"{NAME}.json", NAME, placed=True)
    arguments = [*device(PART), "--json", f"{NAME}.json", "--lpf", str(PINS)]
    log = FOLDER / "nextpnr-ecp5.log"
    stage(f"{'packing' if options.no_route else 'place and route'} (log: {log})")
    if options.no_route:
        run_tool("nextpnr-ecp5", *arguments, "--pack-only", folder=FOLDER)
    else:
        arguments += ["--textcfg", f"{NAME}.config", "--report", "timing.json"]
        arguments += ["--timing-allow-fail", "--seed", str(options.seed)]
        arguments += ["--placer", options.placer, "--router", options.router]
        run_tool("nextpnr-ecp5", *arguments, folder=FOLDER)
    cells = used(log.read_text(errors="replace"))
    for kind, (some, all_) in cells.items():
        print(f"{kind:16} {some:>7,} of {all_:>7,}  {some / all_:6.1%}")
    figures: dict[str, Any] = {"configuration": choices.config.as_dict(), "cells": cells}
    if not options.no_route:
        figures |= _packed(options, choices)
    return figures


def _packed(options: argparse.Namespace, choices: Choices) -> dict[str, Any]:
    """Write the bitstream, if it meets its clock; what it reaches.

    Raises
    ------
    Different
        It does not.
    """
    reached, asked = slowest(json.loads((FOLDER / "timing.json").read_text()))
    if reached < asked:
        raise Different(
            f"seed {options.seed} reaches {reached:.1f} MHz, the board's clock is {asked:.1f} MHz: "
            f"{options.out} is not written; try another --seed, or a lower --megahertz"
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(options.out) as temporary:
        run_tool(
            "ecppack",
            "--compress",
            "--freq",
            "62.0",
            f"{NAME}.config",
            str(temporary.resolve()),
            folder=FOLDER,
        )
        size = temporary.stat().st_size
    if size > IMAGE_IN_FLASH:
        raise ToolError(f"{options.out} has {size:,} bytes: more than lie before the image")
    print(f"{options.out}: {size:,} bytes, {reached:.1f} MHz reached, {choices.megahertz:g} used")
    return {"bytes": size, "fmax_mhz": reached, "megahertz": choices.megahertz}


if __name__ == "__main__":
    sys.exit(main())

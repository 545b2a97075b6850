"""`python -m rtl.generate`: a unit as Verilog, with its data sheet beside it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cli.command import run_command
from cli.errors import UserError
from cli.journey import then
from cli.machine import BUILD
from cli.options import Parser
from cli.progress import stage

from rtl.compile.options import add_fit, fit
from rtl.dma.bus import Bus
from rtl.dma.options import add_bus_options, bus_of
from rtl.generate.sheet import STREAMED, generate, generated, refuse_dma
from rtl.generate.units import UNITS
from rtl.interface.config import Config, array
from rtl.interface.options import add_config_options, config_of

DESCRIPTION = """\
Write a unit as Verilog, with a JSON of its ports, configuration and latency beside it.

The accelerator comes as a package: rtl/, constraints/ (.sdc, .xdc, .lpf), memories/ (examples for
an ASIC or AMD's XPM), software/ (C header of the registers), a self-checking bench, a FuseSoC core
and a data sheet. With --dma it reads command stream and embedding rows from memory itself.
"""
EXAMPLES = """\
examples:
  python -m rtl.generate --list
  python -m rtl.generate softmax --lanes 8 -o build/rtl
  python -m rtl.generate matmul --lanes 16 --dsp-macs 96 -o build/rtl
  python -m rtl.generate accelerator --lanes 8 -o build/package --clock-mhz 125
  python -m rtl.generate accelerator --lanes 4 --trace --prefix small_
  python -m rtl.generate accelerator --dma --data-bits 128 -o build/package
  python -m rtl.generate accelerator --fit build/bert-tiny-imdb build/mine --lanes 16
"""
OUT = BUILD / "rtl"
WITH_DMA = f"{STREAMED} --dma"
WIDE = len(WITH_DMA)


def _parser() -> Parser:
    result = Parser("rtl.generate", DESCRIPTION, EXAMPLES)
    result.add_argument("unit", nargs="?", help="which unit; --list shows them")
    result.add_argument("--list", action="store_true", help="show the units and stop")
    result.add_argument(
        "-o", "--out", type=Path, default=OUT, metavar="DIR", help=f"default: {OUT}"
    )
    result.add_argument(
        "--prefix",
        default="",
        metavar="NAME",
        help="begins the names of files and modules, so that two configurations fit one design",
    )
    result.add_argument(
        "--trace",
        action="store_true",
        help="with the outputs trace_*, which show every write of an intermediate to a bench",
    )
    result.add_argument(
        "--clock-mhz",
        type=float,
        metavar="MHZ",
        help="clock of the accelerator's constraints (default: 100)",
    )
    add_fit(result)
    add_config_options(result)
    add_bus_options(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> None:
    if options.list:
        for entry in UNITS.values():
            print(f"{entry.name:<{WIDE}}  {entry.description}")
        print(f"{WITH_DMA:<{WIDE}}  the same, an AXI4 master that reads stream and rows itself")
        return
    if options.unit is None:
        raise UserError("no unit is named: name one, or give --list to see them")
    config, bus = fit(options) if options.fit else config_of(options), bus_of(options)
    if bus is not None:
        refuse_dma(options.unit)
    if options.unit == STREAMED:
        paths = _package(options, config, bus)
    elif options.clock_mhz is not None:
        what = f"{options.unit} has no constraints, so leave it out"
        raise UserError(f"--clock-mhz is for the accelerator: {what}")
    else:
        paths = [
            *generate(
                options.unit,
                config,
                options.out,
                prefix=options.prefix,
                trace=options.trace,
            )
        ]
    for path in paths:
        print(path)
    if options.unit == STREAMED:
        folder = ("--quantized", *options.fit[:1]) if options.fit else ()
        then("rtl.compile", "--lanes", config.lanes, *folder)


def _package(options: argparse.Namespace, config: Config, bus: Bus | None) -> list[Path]:
    # Only a package needs what its bench is made with.
    from rtl.generate.package.constraints import constraints
    from rtl.generate.package.folder import MHZ, package_files, verilog_paths, write_package
    from tb.generate.folder import bench_files, bench_of

    mhz = MHZ if options.clock_mhz is None else options.clock_mhz
    constraints("", mhz)  # a clock out of range is refused before the design is made
    name = STREAMED if bus is None else WITH_DMA
    stage(f"generating the {name}, {array(config.lanes, config.tile_columns)}")
    made = generated(STREAMED, config, prefix=options.prefix, trace=options.trace, bus=bus)
    stage("generating its bench")
    design = made.facts, made.verilog
    bench = bench_of(STREAMED, config, prefix=options.prefix, design=design, bus=bus)
    texts = bench_files(bench, [f"../{path}" for path in verilog_paths(made.verilog)])
    files = package_files(made, config, texts, bench.sources, mhz=mhz, bus=bus)
    return write_package(files, options.out, made.module)


if __name__ == "__main__":
    sys.exit(main())

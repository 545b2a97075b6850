"""`python -m rtl.generate`: a unit as Verilog, with its data sheet beside it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cli.command import run_command
from cli.options import Parser

from rtl.generate.sheet import generate
from rtl.generate.units import UNITS
from rtl.interface.options import add_config_options, config_of

DESCRIPTION = """\
Write a unit as Verilog, with a JSON of its ports, configuration and latency beside it.
"""
EXAMPLES = """\
examples:
  python -m rtl.generate --list
  python -m rtl.generate softmax --lanes 8 -o build/rtl
  python -m rtl.generate matmul --lanes 16 --dsp-macs 96 -o build/rtl
  python -m rtl.generate accelerator --lanes 4 --no-trace --prefix small_
"""
OUT = Path("build/rtl")


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
        "--no-trace",
        action="store_true",
        help="without the outputs trace_*, which only benches need",
    )
    add_config_options(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> None:
    if options.list:
        for entry in UNITS.values():
            print(f"{entry.name:<12} {entry.description}")
        return
    if options.unit is None:
        raise ValueError("no unit is named: name one, or give --list to see them")
    for path in generate(
        options.unit,
        config_of(options),
        options.out,
        prefix=options.prefix,
        trace=not options.no_trace,
    ):
        print(path)


if __name__ == "__main__":
    sys.exit(main())

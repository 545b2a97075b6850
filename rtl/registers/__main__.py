"""`python -m rtl.registers`: the register map as a C header and as HTML."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cli.command import run_command
from cli.files import write_if_changed
from cli.machine import BUILD
from cli.options import Parser

from rtl.dma.options import add_bus_options, bus_of
from rtl.interface.options import add_config_options, config_of
from rtl.registers.export import HEADER, PAGE, c_header, html

DESCRIPTION = """\
Write the register map (rtl/registers/bert2rtl.rdl) as a C header and as HTML, with the limits of a
configuration as reset values.
"""
EXAMPLES = """\
examples:
  python -m rtl.registers
  python -m rtl.registers --lanes 4 --tokens 64 -o build/registers
  python -m rtl.registers --dma -o build/registers
"""
OUT = BUILD / "registers"


def _parser() -> Parser:
    result = Parser("rtl.registers", DESCRIPTION, EXAMPLES)
    result.add_argument(
        "-o", "--out", type=Path, default=OUT, metavar="DIR", help=f"default: {OUT}"
    )
    add_config_options(result)
    add_bus_options(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> None:
    config, bus = config_of(options), bus_of(options)
    made = {HEADER: c_header(config, bus), PAGE: html(config, bus)}
    for name, text in made.items():
        write_if_changed(options.out / name, text)
        print(options.out / name)


if __name__ == "__main__":
    sys.exit(main())

"""Write a unit as Verilog, with a JSON of its ports, configuration and latency beside it.

examples:
  python -m rtl.generate --list
  python -m rtl.generate softmax --lanes 8 -o build/rtl
  python -m rtl.generate matmul --lanes 16 --dsp-macs 96 -o build/rtl
  python -m rtl.generate accelerator --lanes 4 --no-trace --prefix small_
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rtl.generate.sheet import generate
from rtl.generate.units import UNITS
from rtl.generate.verilog import VerilogError
from rtl.interface.options import add_config_options, config_of


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m rtl.generate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("unit", nargs="?", help="which unit; --list shows them")
    parser.add_argument("--list", action="store_true", help="show the units and stop")
    folder = Path("build/rtl")
    parser.add_argument(
        "-o", "--out", type=Path, default=folder, metavar="DIR", help=f"default: {folder}"
    )
    parser.add_argument(
        "--prefix",
        default="",
        metavar="NAME",
        help="begins the names of files and modules, so that two configurations fit one design",
    )
    parser.add_argument(
        "--no-trace",
        action="store_true",
        help="without the outputs trace_*, which only benches need",
    )
    add_config_options(parser)
    options = parser.parse_args()
    if options.list:
        for entry in UNITS.values():
            print(f"{entry.name:<12} {entry.description}")
        return 0
    if options.unit is None:
        parser.error("name a unit, or give --list to see them")
    try:
        for path in generate(
            options.unit,
            config_of(options),
            options.out,
            prefix=options.prefix,
            trace=not options.no_trace,
        ):
            print(path)
    except (ValueError, VerilogError, OSError) as error:
        print(f"rtl.generate: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("rtl.generate: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m boards`: the accelerator in litex-boards' own SoC of a board, and its bitstream."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from cli.command import run_command
from cli.errors import ToolError
from cli.machine import BUILD
from cli.options import Parser
from cli.progress import stage

from rtl.interface.options import add_config_options, config_of

DESCRIPTION = """\
The accelerator in litex-boards' own SoC of a board: LiteDRAM where the board has it, no CPU, and a
bridge to a computer, Etherbone where the SoC offers it and UARTBone elsewhere. Writes Verilog,
constraints and script of the board's own tools, csr.csv with the memory map, and what a host
initialises the memory with (sdram_init.py). --build runs the script: for an ECP5 by Yosys and
nextpnr of `make setup-synth`, for other parts by the vendor's tools.
"""
EXAMPLES = """\
examples:
  python -m boards --list
  python -m boards --board radiona_ulx3s --lanes 8 --build
  python -m boards --board digilent_arty --argument variant=a7-35 --lanes 4
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _command(_parser().parse_args(arguments)))


def _argument(text: str) -> tuple[str, Any]:
    name, equal, value = text.partition("=")
    if not equal:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    with contextlib.suppress(ValueError):
        return name, json.loads(value)
    return name, value


def _parser() -> Parser:
    result = Parser("boards", DESCRIPTION, EXAMPLES)
    what = result.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", action="store_true", help="print the boards and stop")
    what.add_argument("--board", metavar="NAME", help="a board of litex-boards")
    result.add_argument(
        "--argument",
        type=_argument,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the board's SoC, such as its device; a wrong name shows them all",
    )
    result.add_argument("--build", action="store_true", help="run the board's tools to a bitstream")
    add_config_options(result)
    return result


def _command(options: argparse.Namespace) -> None:
    from boards import project  # LiteX, which --help does without

    if options.list:
        print("\n".join(project.board_names()))
        return
    config, folder = config_of(options), BUILD / options.board
    with project.quiet():
        soc = project.base_soc(options.board, dict(options.argument))
    platform = soc.platform
    project.check_part(platform.device, config)
    stage(f"{options.board}: the SoC with the accelerator on its {platform.device}")
    folder.mkdir(parents=True, exist_ok=True)
    project.add(soc, config, folder)
    open_tools = platform.toolchain.__class__.__name__ == project.OPEN_TOOLCHAIN
    if open_tools:
        platform.toolchain._pnr_opts += project.PLACEMENT
        if options.build:
            project.use_open_tools(folder)
    try:
        with project.quiet():
            project.write_project(soc, folder, options.build)
    except OSError as error:
        reason = re.split(r",|:?\n", str(error))[0]
        raise ToolError(f"the tools of {options.board} did not run ({reason}); {folder}") from None
    for name, region in sorted(soc.bus.regions.items(), key=lambda entry: entry[1].origin):
        print(f"{region.origin:#010x} {region.size:>#11x} bytes  {name}")
    print(f"{folder / 'csr.csv'} has every register; tools: {folder / 'gateware'}")
    if open_tools and options.build:
        project.check_routed(folder / "gateware", soc.sys_clk_freq / 1e6)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m boards.program`: bitstream and image into the flash of a ULX3S.

openFPGALoader writes both over USB. Where it is not installed, or no such board is connected, the
commands are printed instead.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cli.command import ToolError, run_command
from cli.options import Parser

from boards.bitstream import OUT
from boards.gateware.system import IMAGE_IN_FLASH
from rtl.compile.image import read_image

TOOL = "openFPGALoader"
FLASH_BYTES = 1 << 24
USB = ("0403", "6015")
"""Vendor and product of the ULX3S's USB bridge."""
DEVICES = Path("/sys/bus/usb/devices")
EXAMPLES = """\
examples:
  python -m boards.program
  python -m boards.program --load build/model.img
  python -m boards.program --volatile        until the power goes off
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _parser() -> Parser:
    result = Parser("boards.program", "Bitstream and image into a ULX3S.", EXAMPLES)
    result.add_argument(
        "--bitstream", type=Path, default=OUT, metavar="FILE", help=f"default: {OUT}"
    )
    result.add_argument(
        "--load", type=Path, metavar="FILE", help="what `rtl.compile --image` wrote, too"
    )
    result.add_argument(
        "--volatile", action="store_true", help="the bitstream into the FPGA, not its flash"
    )
    return result


def commands(bitstream: Path, image: Path | None, volatile: bool) -> list[list[str]]:
    """What is to be run, in its order: the image first, for the bitstream begins by reading it."""
    found = []
    if image is not None:
        place = ["--offset", f"{IMAGE_IN_FLASH:#x}", "--file-type", "raw"]
        found.append([TOOL, "--board", "ulx3s", "--write-flash", *place, str(image)])
    flash = [] if volatile else ["--write-flash"]
    return [*found, [TOOL, "--board", "ulx3s", *flash, str(bitstream)]]


def connected() -> bool:
    """Whether a ULX3S, or another board with its bridge, is at this computer's USB."""
    for device in DEVICES.glob("*/idVendor"):
        product = device.with_name("idProduct")
        if (device.read_text().strip(), product.read_text().strip()) == USB:
            return True
    return False


def _run(options: argparse.Namespace) -> int:
    if options.load is not None:
        data = options.load.read_bytes()
        try:
            read_image(data)
        except ValueError as error:
            raise ValueError(f"{options.load}: {error}") from None
        room = FLASH_BYTES - IMAGE_IN_FLASH
        if len(data) > room:
            raise ValueError(
                f"{options.load} has {len(data):,} bytes, the flash {room:,} "
                "behind the bitstream: load it over the line, with boards.host.load"
            )
    missing = ""
    if shutil.which(TOOL) is None:
        missing = f"{TOOL} is not installed"
    elif not connected():
        missing = "no ULX3S is connected"
    elif not options.bitstream.is_file():
        raise ValueError(f"there is no {options.bitstream}: `make bitstream BOARD=ulx3s` writes it")
    if missing:
        print(f"{missing}; with board, {TOOL} and {options.bitstream} this would run:")
    for command in commands(options.bitstream, options.load, options.volatile):
        print(shlex.join(command), flush=True)
        if not missing and subprocess.run(command).returncode != 0:
            raise ToolError(f"{TOOL} failed: is the board free, and may you use its USB device?")
    return 0


if __name__ == "__main__":
    sys.exit(main())

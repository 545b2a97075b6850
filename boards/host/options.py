"""Which board a command talks to, and how long it waits for it."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from cli.options import Parser, positive, whole

from boards.host.link import Link, only_port
from boards.protocol import BAUD
from rtl.compile.image import Image, read_image


def add_board(parser: Parser) -> None:
    """Options for the serial line."""
    group = parser.add_argument_group("the board")
    group.add_argument(
        "--port", metavar="PORT", help="/dev/ttyUSB0, COM3 ... (default: the only serial port)"
    )
    group.add_argument(
        "--baud", type=positive, default=BAUD, metavar="N", help=f"of the line (default: {BAUD})"
    )
    group.add_argument(
        "--timeout",
        type=positive,
        default=5,
        metavar="N",
        help="seconds that an answer may take (default: 5)",
    )
    group.add_argument(
        "--tries",
        type=positive,
        default=5,
        metavar="N",
        help="how often something is asked before that ends it (default: 5)",
    )
    group.add_argument(
        "--patience",
        type=whole(0),
        default=10,
        metavar="N",
        help="seconds for which a port that goes away is waited for (default: 10)",
    )


def image_in(path: Path) -> tuple[bytes, Image]:
    """The bytes of an image's file, and what they hold.

    Raises
    ------
    ValueError
        It holds no sound image; the message names it.
    """
    data = path.read_bytes()
    try:
        return data, read_image(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def link_of(options: argparse.Namespace) -> AbstractContextManager[Link]:
    """The line that the options of `add_board` name, opened.

    Raises
    ------
    ValueError
        No port is named and there is not one alone.
    LinkError
        It cannot be opened.
    """
    return Link(
        options.port or only_port(),
        options.baud,
        seconds=options.timeout,
        tries=options.tries,
        patience=options.patience,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )

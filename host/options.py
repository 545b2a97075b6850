"""Which board a command talks to, and how long it waits for it."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager

from cli.options import Parser, positive, whole

from board.protocol import BAUD
from host.link import Link, only_port


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
        "--timeout", type=positive, default=5, metavar="N",
        help="seconds that an answer may take (default: 5)",
    )  # fmt: skip
    group.add_argument(
        "--tries", type=positive, default=5, metavar="N",
        help="how often something is asked before that ends it (default: 5)",
    )  # fmt: skip
    group.add_argument(
        "--patience", type=whole(0), default=10, metavar="N",
        help="seconds for which a port that goes away is waited for (default: 10)",
    )  # fmt: skip


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

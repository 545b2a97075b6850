"""`python -m boards.host.info`: what the board at a serial port is, and which image it uses."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from cli.command import run_command
from cli.files import write_json
from cli.options import Parser, add_json

from boards.host.board import Board
from boards.host.options import add_board, link_of
from boards.protocol import PROBLEMS, Problem
from rtl.interface.config import array

EXAMPLES = """\
examples:
  python -m boards.host.info
  python -m boards.host.info --port /dev/ttyUSB0 --json build/board.json
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _parser() -> Parser:
    result = Parser("boards.host.info", "What the board is, and which image it uses.", EXAMPLES)
    add_board(result)
    add_json(result)
    return result


def _run(options: argparse.Namespace) -> int:
    with link_of(options) as link:
        info = Board(link).info()
        port = link.port
    print(f"a board at {port}, protocol {info.version}, {info.kilohertz / 1000:g} MHz")
    print(
        f"accelerator: {array(info.lanes, info.columns)}, up to {info.tokens} tokens, "
        f"hidden {info.hidden}, ffn {info.ffn}, {info.labels} labels, "
        f"stream version {info.stream_version}"
    )
    print(f"memory: {info.memory_bytes:,} bytes")
    if info.problem is Problem.NONE:
        print(f"image: model {info.model.hex()}, SHA-256 {info.digest.hex()}")
    else:
        print(f"image: none to use, {PROBLEMS[info.problem]}")
    if options.json:
        facts = vars(info) | {
            "model": info.model.hex(),
            "digest": info.digest.hex(),
            "problem": info.problem.name,
            "port": port,
        }
        write_json(options.json, facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())

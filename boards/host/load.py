"""`python -m boards.host.load IMAGE`: an image into the board's memory, and into use.

It stays there until the board loses its power or takes another.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cli.command import run_command
from cli.files import write_json
from cli.options import Parser, add_json
from cli.paths import problem
from cli.progress import stage

from boards.host.board import Board
from boards.host.options import add_board, image_in, link_of
from rtl.interface.config import array

EXAMPLES = """\
examples:
  python -m boards.host.load build/model.img
  python -m boards.host.load build/model.img --port /dev/ttyUSB0
  python -m rtl.compile --lanes 8 --image build/model.img    writes one
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def sound_path(text: str) -> Path:
    """The type of an argument that names a file to be read."""
    if why := problem("image to load", "FILE", text):
        raise argparse.ArgumentTypeError(why)
    return Path(text)


def _parser() -> Parser:
    result = Parser("boards.host.load", "Load an image into the board's memory.", EXAMPLES)
    result.add_argument(
        "image", type=sound_path, metavar="IMAGE", help="file that `rtl.compile --image` wrote"
    )
    add_board(result)
    add_json(result)
    return result


@contextmanager
def bar(size: int) -> Iterator[Callable[[int], None]]:
    """What is told how many bytes have arrived; without a terminal it shows nothing."""
    if not sys.stderr.isatty():
        stage(f"sending {size:,} bytes")
        yield lambda done: None
        return
    from tqdm import tqdm

    with tqdm(total=size, desc="sending", unit="B", unit_scale=True, leave=False) as shown:

        def told(done: int) -> None:
            shown.update(done - shown.n)

        yield told


def _run(options: argparse.Namespace) -> int:
    data, image = image_in(options.image)
    with link_of(options) as link:
        board = Board(link)
        info = board.info()
        if (image.lanes, image.columns) != (info.lanes, info.columns):
            wide = f" --columns {info.columns}" if info.columns != info.lanes else ""
            raise ValueError(
                f"{options.image} is for {array(image.lanes, image.columns)}, the board has "
                f"{array(info.lanes, info.columns)}: write it with `python -m rtl.compile "
                f"--lanes {info.lanes}{wide} --image {options.image}`"
            )
        began = time.monotonic()
        with bar(len(data)) as told:
            loads = board.load(data, told)
        seconds = time.monotonic() - began
        used = board.info()
    model, digest = used.model.hex(), used.digest.hex()
    print(f"{options.image}: {len(data):,} bytes in {seconds:.1f} s, checked by the board")
    print(f"image: model {model}, SHA-256 {digest}")
    if loads > 1:
        print(f"sent {loads} times: the board had lost a part of it")
    if options.json:
        figures = {
            "image": str(options.image),
            "bytes": len(data),
            "seconds": seconds,
            "sent": loads,
            "resends": link.resends,
            "reconnections": link.reconnections,
            "model": model,
            "digest": digest,
        }
        write_json(options.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())

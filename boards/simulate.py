"""`python -m boards.simulate`: the ULX3S in simulation, at a terminal for the host programs.

The Verilog of the board's top runs with models of its chips: an SDRAM that checks every time of its
data sheet, a flash, a serial line. Time passes while there is something to do, some hundred times
slower than on a board. A line on the standard input is a command: reset, unplug MILLISECONDS,
noise CYCLES SEED, chatter BYTES SEED, flip ADDRESS BIT, state, quit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cli.command import Different, run_command
from cli.files import write_if_changed
from cli.machine import BUILD
from cli.options import Parser
from cli.progress import stage

from boards.simulation.ulx3s import Simulated, choices
from golden.store import load
from rtl.compile import MODEL
from rtl.compile.image import image_bytes
from rtl.compile.program import compile_model, image_of
from rtl.interface.config import Config
from rtl.interface.options import add_config_options, config_of

PORT = BUILD / "ttyULX3S"
IMAGES = BUILD / "board"
EXAMPLES = """\
examples:
  python -m boards.simulate
  python -m boards.simulate --lanes 4 --quantized build/bert-tiny-imdb
  python -m boards.simulate --empty
  python -m boards.simulate --flash build/model.img
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _parser() -> Parser:
    result = Parser("boards.simulate", "The ULX3S in simulation, at a terminal.", EXAMPLES)
    result.add_argument(
        "--port", default=PORT, metavar="NAME", help=f"the terminal (default: {PORT})"
    )
    result.add_argument(
        "--quantized",
        type=Path,
        default=MODEL,
        metavar="DIR",
        help=f"the model that lies in the memory already, checked (default: {MODEL})",
    )
    group = result.add_mutually_exclusive_group()
    group.add_argument("--empty", action="store_true", help="no model in the memory")
    group.add_argument(
        "--flash", type=Path, metavar="FILE", help="an image in the flash, and none in the memory"
    )
    add_config_options(result)
    return result


def image_file(quantized: Path, config: Config) -> Path:
    """The image of a quantized model, written below build/board."""
    model, _ = load(quantized)
    path = IMAGES / f"{quantized.name}-{config.lanes}.img"
    made = image_of(model, compile_model(model, config))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_if_changed(path, image_bytes(made))
    return path


def _run(options: argparse.Namespace) -> int:
    config = config_of(options)
    of = choices(config)
    memory = None
    if not options.empty and options.flash is None:
        memory = image_file(options.quantized, config)
        size, room = memory.stat().st_size, of.info.memory_bytes
        if size > room:
            raise ValueError(
                f"the image of {options.quantized} has {size:,} bytes, the board's memory "
                f"{room:,}: take a smaller model"
            )
    board = Simulated(of, Path(options.port), flash=options.flash, memory=memory)
    stage("switching the board on")
    with board:
        print(f"a board with {config.lanes} lanes at {options.port} ({board.device})")
        print(f"python -m boards.host.info --port {options.port}")
        print(f'python -m boards.host.classify --port {options.port} "That movie was terrible!"')
        print("reset, unplug, noise, chatter, flip, state, quit; or Ctrl-C", flush=True)
        with suppress(KeyboardInterrupt):
            _obey(board)
        complaints = board.state["violations"]
    if complaints:
        raise Different(f"the chips complain: {', '.join(dict.fromkeys(complaints))}")
    return 0


def _obey(board: Simulated) -> None:
    """Give what is typed to the board, until quit; without a keyboard until the board ends."""
    for line in sys.stdin:
        if line.strip() == "quit":
            return
        if line.strip():
            try:
                print(board.tell(line.strip()), flush=True)
            except ValueError as error:
                print(error, flush=True)
    board.wait()


if __name__ == "__main__":
    sys.exit(main())

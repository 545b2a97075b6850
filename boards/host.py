"""`python -m boards.host`: texts on a board that `litex_server` reaches.

LiteX's server has the line to the board, its client reads and writes addresses of the SoC; the
driver of driver/ uses the accelerator through them. Tokens are made here.
"""

from __future__ import annotations

import argparse
import runpy
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.command import run_command
from cli.errors import ToolError, UserError
from cli.machine import BUILD
from cli.options import Parser, positive
from cli.progress import progress

import numpy as np

from driver.bert2rtl import DeviceError, DmaAccelerator
from golden.identity import identity_of
from quant.images.data import load
from quant.measure.metrics import shown
from quant.measure.tasks import task_of
from quant.model.spec import TEXTS
from quant.quantized_model import QuantizedModel
from quant.texts.data_file import Review, add_columns, layout_of
from rtl.compile.image import HEADER, read_image

MODEL = BUILD / "bert-tiny-imdb"
IMAGE = BUILD / "model.img"
DESCRIPTION = """\
Classify texts on a board, through LiteX's server, which runs in another shell:
litex_server --uart --uart-port /dev/ttyUSB0 --uart-baudrate 1000000
"""
EXAMPLES = """\
examples:
  python -m boards.host --board radiona_ulx3s "That movie was terrible!"
  python -m boards.host --board radiona_ulx3s --data reviews.csv
"""
CHUNK = 128
"""Words written at once; the last is read back, so that no line has more waiting."""
PATTERNS = (0x5A5A_0F0F, 0xA5A5_F0F0)


class Registers:
    """The accelerator's registers among the addresses of the SoC."""

    def __init__(self, bus: Any, base: int) -> None:
        self.bus, self.base = bus, base

    def read(self, offset: int) -> int:
        return int(self.bus.read(self.base + offset))

    def write(self, offset: int, value: int) -> None:
        self.bus.write(self.base + offset, value)


class Board:
    """A SoC behind `bus`.

    Parameters
    ----------
    bus
        `read` and `write` of addresses, and csr.csv as LiteX's client offers it.
    project
        The folder that `python -m boards` wrote.

    Attributes
    ----------
    accelerator
        Its driver.

    Raises
    ------
    ToolError
        The board does not answer, or its accelerator is of another version.
    """

    def __init__(self, bus: Any, project: Path) -> None:
        self.bus, self.sequence = bus, project / "sdram_init.py"
        self.memory, self.bytes = bus.mems.main_ram.base, bus.mems.main_ram.size
        self.megahertz = bus.constants.config_clock_frequency / 1e6
        try:
            self.accelerator = DmaAccelerator(Registers(bus, bus.mems.accelerator.base))
        except DeviceError as error:
            raise ToolError(str(error)) from None

    def _holds(self) -> bool:
        """Write the memory's last two words and read them again."""
        addresses = [self.memory + self.bytes - 4 * (i + 1) for i in range(len(PATTERNS))]
        for address, pattern in zip(addresses, PATTERNS):
            self.bus.write(address, pattern)
        return tuple(self.bus.read(address) for address in addresses) == PATTERNS

    def _initialise(self) -> None:
        """Send the memory the commands of LiteDRAM's sequence."""
        header, regs = runpy.run_path(str(self.sequence)), self.bus.regs
        for comment, address, bank, command, cycles in header["init_sequence"]:
            regs.sdram_dfii_pi0_address.write(address)
            regs.sdram_dfii_pi0_baddress.write(bank)
            if "CKE" in comment or "reset" in comment.split("/")[0]:
                regs.sdram_dfii_control.write(command)
            else:
                regs.sdram_dfii_pi0_command.write(command)
                regs.sdram_dfii_pi0_command_issue.write(1)
            time.sleep(cycles / self.megahertz / 1e6)
        regs.sdram_dfii_control.write(header["dfii_control_sel"])

    def load(self, image: bytes) -> None:
        """Use an image; initialise the memory and write it there unless it has it already.

        The header is written last, so that half an image is none.

        Raises
        ------
        ToolError
            It is larger than the memory, is not for this accelerator, or did not arrive; or the
            memory does not hold what is written.
        """
        if len(image) > self.bytes - 4 * len(PATTERNS):
            raise ToolError(
                f"the image has {len(image):,} bytes, the board's memory {self.bytes:,}: choose a "
                "smaller model"
            )
        try:
            self.accelerator.use(image, self.memory)
        except DeviceError as error:
            raise ToolError(str(error)) from None
        words = np.frombuffer(image, "<u4").tolist()
        head = HEADER.size // 4
        if self.bus.read(self.memory, head) == words[:head]:
            return
        if self.sequence.exists():
            self._initialise()
        if not self._holds():
            raise ToolError(
                "the board's memory does not hold what is written: LiteX's BIOS trains DDR memory, "
                "so build the SoC with --argument cpu_type=vexriscv"
            )
        chunks = range(head, len(words), CHUNK)
        for place in progress([*chunks, 0], "loading the image", "parts", len(chunks) + 1):
            part = words[place : place + CHUNK] if place else words[:head]
            self.bus.write(self.memory + 4 * place, part)
            last = self.memory + 4 * (place + len(part) - 1)
            if (arrived := self.bus.read(last)) != part[-1]:
                raise ToolError(
                    f"the image did not arrive: {arrived:#010x} at {last:#x} instead of "
                    f"{part[-1]:#010x}; load it again"
                )


def connected(address: str, project: Path, seconds: float) -> Any:
    """LiteX's client, connected to the server at `address` (HOST:PORT).

    Raises
    ------
    ToolError
        No server listens there.
    """
    host, _, port = address.rpartition(":")
    csr = project / "csr.csv"
    if not csr.exists():
        raise UserError(f"{csr} is missing: write the board's project with python -m boards")
    from boards.client import Client  # LiteX, which --help does without

    bus = Client(host or "localhost", int(port), csr_csv=str(csr))
    try:
        bus.open()
    except OSError as error:
        raise ToolError(
            f"no litex_server at {address} ({error.strerror or error}): start it in another shell"
        ) from None
    bus.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    bus.socket.settimeout(seconds)
    return bus


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _command(parser().parse_args(arguments)))


def parser() -> Parser:
    result = Parser("boards.host", DESCRIPTION, EXAMPLES)
    result.add_argument("text", nargs="?", help="the text")
    result.add_argument("--pair", metavar="TEXT", help="a second text, for models trained on pairs")
    result.add_argument("--data", type=Path, metavar="FILE", help="a file of texts")
    result.add_argument("--board", required=True, metavar="NAME", help="as for python -m boards")
    result.add_argument(
        "--image",
        type=Path,
        default=IMAGE,
        metavar="FILE",
        help=f"written by rtl.compile --image; loaded unless the board has it (default: {IMAGE})",
    )
    result.add_argument(
        "--quantized",
        type=Path,
        default=MODEL,
        metavar="DIR",
        help=f"the model of the image (default: {MODEL})",
    )
    result.add_argument(
        "--server",
        default="localhost:1234",
        metavar="HOST:PORT",
        help="where litex_server listens (default: localhost:1234)",
    )
    result.add_argument(
        "--timeout",
        type=positive,
        default=2,
        metavar="N",
        help="seconds that an answer may take (default: 2)",
    )
    add_columns(result)
    return result


def _image(path: Path, texts: QuantizedModel, quantized: Path) -> bytes:
    """The bytes of an image of this model.

    Raises
    ------
    ValueError
        It is damaged, or of another model.
    """
    data = path.read_bytes()
    try:
        image = read_image(data)
    except ValueError as error:
        raise UserError(f"--image {path}: {error}") from None
    model = identity_of(texts.model)
    if image.model != model:
        raise UserError(
            f"--image {path} holds model {image.model.hex()}, --quantized {quantized} is model "
            f"{model.hex()}: write the image with python -m rtl.compile --quantized {quantized}"
        )
    return data


def _command(options: argparse.Namespace) -> None:
    run(options)


def run(options: argparse.Namespace) -> list[list[int]]:
    """Print what the board says of the texts; its integer logits of each."""
    if (options.text is None) == (options.data is None):
        raise UserError("give a text, or a file of texts with --data: one of the two")
    texts = QuantizedModel.load(options.quantized, None, floats=False)
    spec, task = texts.spec, task_of(texts.spec)
    if spec.given:
        raise UserError(f"{options.quantized} is a model of {spec.inputs}: boards.host takes texts")
    image = _image(options.image, texts, options.quantized)
    if options.data is None:
        reviews = [Review(options.text, None, options.pair)]
    else:
        layout = layout_of(options)
        reviews = load(TEXTS, options.data, names=spec.labels, layout=layout, task=spec.task)
    project = BUILD / options.board
    bus = connected(options.server, project, options.timeout)
    try:
        board = Board(bus, project)
        board.load(image)
        device = board.accelerator
        encoded = [texts.tokens(r.content, r.pair, device.longest) for r in reviews]
        began = time.monotonic()
        try:
            found = device.infer_all(
                [tokens.ids.tolist() for tokens in encoded],
                [tokens.types.tolist() for tokens in encoded],
                seconds=options.timeout,
            )
        except DeviceError as error:
            raise ToolError(str(error)) from None
        seconds, cycles = time.monotonic() - began, device.counters()["cycles"]
    finally:
        bus.close()
    for number, (review, tokens, logits) in enumerate(zip(reviews, encoded, found), 1):
        codes = np.array(logits)
        if len(codes) > len(spec.labels):
            codes = codes.reshape(-1, len(spec.labels))
        scaled = (codes * texts.logit_scale).astype(np.float32)
        values = task_of(spec).answer(spec, tokens, scaled, codes)
        if tokens.dropped:
            print(
                f"warning: text {number} is cut after {len(tokens.ids)} tokens, {tokens.dropped} "
                "more are not read",
                file=sys.stderr,
            )
        if options.data is None:
            print(f"{task.said(values)}   from {len(tokens.ids)} tokens")
            values["integer_logits"] = task.numbers(spec, tokens, codes)
            print(shown(values))
            print(f"{cycles:,} clock cycles, {cycles / board.megahertz / 1e3:.3f} ms on the board")
        else:
            print(f"{task.said(values):12}  {' '.join(review.text.split())[:80]}")
    if options.data is not None:
        print(f"{len(found):,} texts in {seconds:.1f} s, with the line")
    return [list(logits) for logits in found]


if __name__ == "__main__":
    sys.exit(main())

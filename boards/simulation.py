"""`python -m boards.simulation`: a review on the board's SoC in LiteX's simulation.

The SoC is that of a ULX3S, whose SDRAM is LiteDRAM's model and whose serial line is a socket.
litex_server and boards.host use it as they use a board; logits have to be golden's.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cli.command import run_command
from cli.errors import Different
from cli.machine import BUILD, GENERATED
from cli.options import Parser, add_lanes
from cli.progress import stage

import numpy as np

from boards import host
from golden.encoder import run as golden
from quant.quantized_model import QuantizedModel
from rtl.compile.fit import fitting_model
from rtl.compile.image import image_bytes
from rtl.compile.program import compile_model, image_of
from rtl.interface.config import LANES

DESCRIPTION = """\
A review on the SoC of a ULX3S in LiteX's own simulation, by Verilator: UARTBone, LiteDRAM with its
model of the SDRAM, and the accelerator. A large image lies in the SDRAM from the start, a small one
goes over the line; the host program is that of a board. Logits have to be golden's. Needs
`make setup-synth`.
"""
EXAMPLES = """\
examples:
  python -m boards.simulation
  python -m boards.simulation --review "A film for everyone." --lanes 4
"""
REVIEW = "That movie was terrible!"


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _command(_parser().parse_args(arguments)))


def _parser() -> Parser:
    result = Parser("boards.simulation", DESCRIPTION, EXAMPLES)
    result.add_argument("--review", default=REVIEW, metavar="TEXT", help=f"default: {REVIEW}")
    result.add_argument(
        "--quantized",
        type=Path,
        default=host.MODEL,
        metavar="DIR",
        help=f"default: {host.MODEL}",
    )
    add_lanes(result, LANES, default=8)
    return result


def _command(options: argparse.Namespace) -> None:
    from boards.project import add, quiet  # LiteX, which --help does without
    from boards.simulated import PATIENCE, SMALL, SimulatedSoC, build, free_port, served

    texts = QuantizedModel.load(options.quantized, None, floats=False)
    config = fitting_model(texts.model, options.lanes, 1)
    folder = GENERATED / f"simulation-{options.lanes}"
    folder.mkdir(parents=True, exist_ok=True)
    image = folder / "model.img"
    program = compile_model(texts.model, config)
    contents = image_bytes(image_of(texts.model, program))
    image.write_bytes(contents)
    with quiet():
        soc = SimulatedSoC(contents if len(contents) > SMALL else b"")
    add(soc, config, folder)
    line = free_port()
    build(soc, folder, "serial2tcp", port=line)
    stage("simulating")
    with served(folder, line) as server:
        words = [options.review, "--board", os.path.relpath(folder, BUILD), "--server", server]
        words += ["--image", str(image), "--quantized", str(options.quantized)]
        (logits,) = host.run(host.parser().parse_args([*words, "--timeout", str(PATIENCE)]))
    tokens = texts.tokens(options.review, None, config.tokens)
    wanted = np.ravel(golden(texts.model, tokens.ids, tokens.types, np.ones_like(tokens.ids)))
    if logits != wanted.tolist():
        raise Different(f"the board's logits are {logits}, golden's {wanted.tolist()}")
    print("logits as golden's")


if __name__ == "__main__":
    sys.exit(main())

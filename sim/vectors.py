"""`python -m sim.vectors`: test vectors of single units, cut out of golden runs on real reviews."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence as Arguments
from pathlib import Path

from cli.command import run_command
from cli.errors import UserError
from cli.files import write_json
from cli.machine import BUILD
from cli.options import Parser, add_json, add_tokens, positive
from cli.words import counted

from golden.model import Model
from quant import which
from quant.calibrate import DEFAULT_DATA
from quant.foreign.tokenizer import Tokens, encode
from quant.images import data as images
from quant.model.spec import EncoderSpec
from quant.quantized_model import QuantizedModel
from quant.texts.data_file import Review
from sim.options import add_model_options, quantized_of
from sim.report import table
from tb import vectors
from tb.cut import UNITS, Sequence

DESCRIPTION = """\
Cut test vectors of single units out of golden runs on real reviews.

Every vector is a file UNIT/NUMBER.TENSOR.npz; index.json lists them.
"""
EXAMPLES = """\
examples:
  python -m sim.vectors
  python -m sim.vectors --unit softmax --text "That movie was terrible!"
  python -m sim.vectors --unit layernorm --samples 8 --tokens 64 --out build/layernorm
"""


def sequence_of(tokens: Tokens, text: str) -> Sequence:
    """The tokens of a text, all of which attend."""
    ids = tuple(tokens.ids.tolist())
    return Sequence(ids, tuple(tokens.types.tolist()), (1,) * len(ids), text[:60])


def sequences_of(
    texts: Arguments[Review], quantized: QuantizedModel, tokens: int
) -> tuple[Model, list[Sequence]]:
    """The texts as token ids, at most `tokens` each; ValueError for an empty one.

    The model is that of `quantized`, with the rows of these inputs where they bring rows.
    """
    encoded = [quantized.tokens(text.content, text.pair, tokens) for text in texts]
    its, placed = quantized.placed(encoded)
    return its.model, [sequence_of(one, text.text) for one, text in zip(placed, texts, strict=True)]


def samples(spec: EncoderSpec, count: int) -> list[Review]:
    """`count` reviews of IMDB, or images where the model takes these, evenly spaced."""
    found = images.load(spec.inputs, images.usual(spec.inputs, DEFAULT_DATA))
    if not 1 <= count <= len(found):
        raise UserError(f"--samples {count}: it must lie in 1..{len(found)}")
    return [found[i * len(found) // count] for i in range(count)]


def _parser() -> Parser:
    parser = Parser("sim.vectors", DESCRIPTION, EXAMPLES)
    add_model_options(parser)
    source = parser.add_mutually_exclusive_group()
    what = "a text, or the file of an image or of rows; may be given several times"
    source.add_argument("--text", action="append", help=what)
    what = "number of IMDB reviews, or of images (default: %(default)s)"
    source.add_argument("--samples", type=positive, default=2, metavar="N", help=what)
    add_tokens(parser, 128)
    what = "which vectors (default: all)"
    parser.add_argument("--unit", choices=[*UNITS, "all"], default="all", help=what)
    what = "values or rows of a vector, evenly spaced (default: %(default)s)"
    parser.add_argument("--limit", type=positive, default=vectors.LIMIT, metavar="N", help=what)
    out = BUILD / "vectors"
    parser.add_argument("--out", type=Path, default=out, metavar="DIR", help=f"default: {out}")
    add_json(parser)
    return parser


def _command(options: argparse.Namespace) -> None:
    spec, reader = which.of_options(options)
    texts = [Review(text, None) for text in options.text or ()] or samples(spec, options.samples)
    for text in texts:  # refused before a calibration
        encode(spec, reader, text.content, text.pair, options.tokens)
    directory = quantized_of(options)
    quantized = QuantizedModel.load(directory, None, floats=False)
    model, sequences = sequences_of(texts, quantized, options.tokens)
    units = list(UNITS) if options.unit == "all" else [options.unit]
    info = {"directory": str(directory), "checkpoint": quantized.info.get("checkpoint")}
    counts = vectors.write(options.out, model, sequences, units, options.limit, info)
    columns = ("vectors", "input", "output")
    rows = [[unit, *(count[column] for column in columns)] for unit, count in counts.items()]
    print(table(["unit", *columns], rows))
    print(f"{counted(len(sequences), 'texts')}, written to {options.out}/{vectors.INDEX}")
    if options.json:
        write_json(options.json, counts)


def main(arguments: Arguments[str] | None = None) -> int:
    return run_command(lambda: _command(_parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())

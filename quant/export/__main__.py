"""`python -m quant.export`: a quantized model as C source."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.machine import BUILD
from cli.options import Parser, add_model, add_quantized
from cli.paths import check_written

from golden import store
from quant.calibrate import calibrated
from quant.export import c
from quant.model.spec import TEXTS, inputs_of

DESCRIPTION = """\
Write a quantized model as a directory of C99 source, without libraries, allocation or floating
point; its logits are those of golden, bit for bit.
"""
EXAMPLES = """\
examples:
  python -m quant.export c
  python -m quant.export c --quantized build/bert-tiny-imdb -o build/export/imdb
"""
OUT = BUILD / "export"


def parser() -> Parser:
    result = Parser("quant.export", DESCRIPTION, EXAMPLES)
    result.add_argument("format", choices=["c"], help="format of the output")
    what = (
        f"directory of the C (default: {OUT}/ and the name of the model); one that holds anything "
        "but an earlier export is refused"
    )
    result.add_argument("-o", "--out", type=Path, metavar="DIR", help=what)
    source = result.add_mutually_exclusive_group()
    add_model(source, default=None)
    add_quantized(source)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: export_command(parser().parse_args(arguments)))


def export_command(options: argparse.Namespace) -> int:
    if options.out is not None:
        check_directory(options.out)
    quantized, _ = calibrated(options)
    out = options.out or OUT / quantized.resolve().name
    check_directory(out)
    model, info = store.load(quantized)
    with files.replacing(out) as temporary:
        temporary.mkdir()
        for name, text in c.sources(model, info).items():
            temporary.joinpath(name).write_text(text, encoding="ascii")
    shape = model.shape
    logits = f"{shape.labels} logits{' each' if shape.pooling == 'none' else ''}"
    program = shlex.quote(f"{out}-infer" if "/" in str(out) else f"./{out}-infer")
    ids = sorted({0, shape.vocabulary // 2, shape.vocabulary - 1})[: shape.tokens]
    print(f"{out}: C99 source of {quantized}, up to {shape.tokens:,} tokens, {logits}")
    print(f"compile: cc -std=c99 -O2 -o {program} {shlex.quote(str(out))}/*.c")
    if inputs_of(info) == TEXTS:
        print(f"run:     echo {' '.join(map(str, ids))} | {program}")
    else:
        print(f"run:     {program} < FILE   {shape.tokens:,} x {shape.hidden} numbers, an image's")
    return 0


def check_directory(out: Path) -> None:
    """Raises UserError where writing to `out` would cost a file that no export wrote."""
    check_written(out, "DIR")
    there = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if others := sorted(there - {*c.INFERENCE, *c.GENERATED}):
        raise UserError(
            f"{out} holds {others[0]}, which is not of an export: "
            "name a new directory with -o, or remove this one"
        )


if __name__ == "__main__":
    sys.exit(main())

"""`python -m quant.export`: a quantized model as C source or as an ONNX graph."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from cli import files
from cli.command import run_command
from cli.machine import BUILD
from cli.options import Parser, add_model, add_quantized

from golden import store
from quant.calibrate import default_out, ensure
from quant.export import c
from quant.foreign import hub
from quant.foreign.checkpoint import DEFAULT_MODEL
from quant.model.spec import TASKS, is_given

DESCRIPTION = """\
Write a quantized model for use without Python; its logits are those of golden, bit for bit.

c       a directory of C99 source, without libraries, allocation or floating point
onnx    a graph of integers, from operators of the standard opset alone; a runtime that
        narrows int64 gives an error instead of logits
"""
EXAMPLES = """\
examples:
  python -m quant.export c
  python -m quant.export c --quantized build/bert-tiny-imdb -o build/export/imdb --prefix imdb
  python -m quant.export onnx --quantized build/bert-tiny-imdb -o build/imdb.onnx
"""
OUT = BUILD / "export"


def parser() -> Parser:
    result = Parser("quant.export", DESCRIPTION, EXAMPLES)
    result.add_argument("format", choices=["c", "onnx"], help="format of the output")
    result.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="DIR|FILE",
        help=f"directory of the C, file of the graph (default: {OUT}/ and the name of the model); "
        "a directory that holds anything but an earlier export is refused",
    )
    result.add_argument(
        "--prefix",
        metavar="NAME",
        help="c: begins the names of files and of all that they define, so that several models "
        f"fit one program; their prefixes differ in more than capitals (default: {c.PREFIX})",
    )
    source = result.add_mutually_exclusive_group()
    add_model(source, default=None)
    add_quantized(source)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: export_command(parser().parse_args(arguments)))


def export_command(options: argparse.Namespace) -> int:
    prefix = c.PREFIX if options.prefix is None else options.prefix
    if options.format == "c":
        c.check_prefix(prefix)
    elif options.prefix is not None:
        raise ValueError("--prefix is for the format c: a graph defines no names: leave it out")
    if options.out is not None and options.format == "c":
        check_directory(options.out, prefix)
    elif options.out is not None:
        check_file(options.out)
    quantized = options.quantized
    if quantized is None:
        checkpoint = DEFAULT_MODEL if options.model is None else hub.local(options.model)
        quantized = ensure(checkpoint, default_out(checkpoint), TASKS)
    name = quantized.resolve().name
    if options.format == "onnx":
        return export_onnx(quantized, options.out or OUT / f"{name}.onnx")
    return export_c(quantized, options.out or OUT / name, prefix)


def export_c(quantized: Path, out: Path, prefix: str) -> int:
    check_directory(out, prefix)
    model, info = store.load(quantized)
    given = is_given(info)
    write_c(c.sources(model, info, prefix), out)
    shape = model.shape
    logits = f"{shape.labels} logits{' each' if shape.pooling == 'none' else ''}"
    program = shlex.quote(f"{out}-infer" if "/" in str(out) else f"./{out}-infer")
    ids = sorted({0, shape.vocabulary // 2, shape.vocabulary - 1})[: shape.tokens]
    print(f"{out}: C99 source of {quantized}, up to {shape.tokens:,} tokens, {logits}")
    print(f"compile: cc -std=c99 -O2 -o {program} {shlex.quote(str(out))}/*.c")
    numbers = f"{shape.tokens:,} x {shape.hidden} numbers, the rows of an image"
    print(
        f"run:     {program} < FILE   {numbers}"
        if given
        else f"run:     echo {' '.join(map(str, ids))} | {program}"
    )
    return 0


def export_onnx(quantized: Path, out: Path) -> int:
    from quant.export.graph import (
        NEEDS,
        OPSET,
        graph,
    )  # the one format that needs a further package

    check_file(out)
    model, info = store.load(quantized)
    given = is_given(info)
    made = graph(model, given)
    files.write(out, made.SerializeToString(deterministic=True))
    print(f"{out}: {len(made.graph.node):,} operators of opset {OPSET}, {quantized}")
    inputs = "ids, types, attend, int64 [tokens]"
    if given:
        inputs = f"rows, int16 [{model.shape.tokens}, {model.shape.hidden}]"
    print(f"inputs:  {inputs}; output: logits, int32")
    print(f"needs:   {NEEDS}")
    return 0


def check_file(out: Path) -> None:
    """Raises ValueError where `out` is a directory."""
    if out.is_dir():
        raise ValueError(f"{out} is a directory: name a file with -o")


def check_directory(out: Path, prefix: str) -> None:
    """Raises ValueError where writing to `out` would cost a file that no export wrote."""
    if not out.is_dir():
        if out.exists() or out.is_symlink():
            raise ValueError(f"{out} is a file: name a directory with -o, it is made if missing")
        return
    own = c.names(prefix)
    others = sorted(path.name for path in out.iterdir() if path.name not in own)
    if others:
        raise ValueError(
            f"{out} holds {others[0]}, which is not of an export with the prefix {prefix}: "
            "name a new directory with -o, or remove this one"
        )


def write_c(sources: dict[str, str], out: Path) -> None:
    """The directory with all files, or what was there before."""
    with files.replacing(out) as temporary:
        temporary.mkdir()
        for name, text in sources.items():
            temporary.joinpath(name).write_text(text, encoding="ascii")


if __name__ == "__main__":
    sys.exit(main())

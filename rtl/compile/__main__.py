"""`python -m rtl.compile`: a quantized model as the command stream that an accelerator reads."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cli.command import run_command
from cli.errors import Different, ToolError, UserError
from cli.files import write_if_changed, write_json
from cli.journey import then
from cli.machine import BUILD
from cli.options import Parser, add_json
from cli.paths import check_written
from cli.progress import stage

from golden.identity import IDENTITY_BYTES, identity_of
from golden.model import TOKENS_MAX
from golden.store import DESCRIPTION as DESCRIPTION_FILE
from golden.store import load
from rtl.compile import MODEL
from rtl.compile.account import violation
from rtl.compile.fit import fixed_tokens, sized
from rtl.compile.image import MAGIC as IMAGE_MAGIC
from rtl.compile.image import Image, image_bytes, read_image
from rtl.compile.program import compile_model, embedding_table, image_of
from rtl.interface.command import decode, window_sides
from rtl.interface.config import Config, array
from rtl.interface.isa import Opcode
from rtl.interface.options import add_config_options, config_of, given, options_of

OUT = BUILD / "model.bin"
DESCRIPTION = """\
Compile a quantized model to the command stream that an accelerator reads.

Writes model.bin, the stream, and model.rows.bin, the flat embedding table that the accelerator's
`request` port indexes: rows of whole words, tokens first, then the positions of each type. With
--image both go into one file with a header, for flash or memory.
"""
EXAMPLES = """\
examples:
  python -m rtl.compile
  python -m rtl.compile --quantized build/bert-tiny-imdb --lanes 16 -o build/model.bin
  python -m rtl.compile --lanes 16 --dump
  python -m rtl.compile --dump build/model.bin
  python -m rtl.compile --lanes 4 --image build/model.img
  python -m rtl.compile --check build/model.img
"""


def listing(stream: bytes, names: dict[int, str] | None = None) -> Iterator[str]:
    """A line a descriptor: offset, opcode, what it computes, flags, fields, payload, CRC.

    names
        What the descriptors compute, by their number, where it is known.

    Raises
    ------
    ValueError
        The stream is not one; see `rtl.interface.command.decode`.
    """
    lanes = width = 1
    for number, item in enumerate(decode(stream)):
        opcode = Opcode(item.opcode)
        if opcode is Opcode.HEADER:
            lanes, width = item.values["lanes"], item.columns
        flags = "|".join(flag.name or "" for flag in item.flags)
        shown = [f"{key}={_shown(key, value)}" for key, value in item.values.items()]
        payload = item.payload_bytes(lanes, width)
        parts = [
            f"{item.offset:>9}",
            f"{opcode.name:<6}",
            f"{(names or {}).get(number, ''):<22}",
            *([flags] if flags else []),
            *shown,
            *([f"+ {payload} bytes"] if payload else []),
            "" if item.crc_good else "CRC WRONG",
        ]
        yield " ".join(parts).rstrip()


def _shown(key: str, value: int) -> str:
    match key:
        case "magic":
            return value.to_bytes(4, "little").decode("ascii")
        case "rows":
            return f"{value:08x}"
        case "model":
            return value.to_bytes(IDENTITY_BYTES, "little").hex()
        case "window":
            before, after = ("all" if x == TOKENS_MAX else x for x in window_sides(value))
            return f"{before} before, {after} after" if value else "0"
    return str(value)


def _dump(path: Path) -> None:
    """List a stream that lies in a file.

    Raises
    ------
    Different
        A CRC is not that of the bytes before it.
    ValueError
        It is no stream, cut, or goes on behind its end; the message names the file.
    """
    data = path.read_bytes()
    if data[: len(IMAGE_MAGIC)] == IMAGE_MAGIC:
        raise UserError(f"{path} is an image, not a stream: `--check {path}` reads it")
    try:
        for line in listing(data):
            print(line)
            if line.endswith("CRC WRONG"):  # sizes and opcodes behind it mean nothing
                raise Different(
                    f"{path}: the CRC of the descriptor at byte {line.split()[0]} is wrong: it is "
                    "damaged, or what stands before it; compile the stream again"
                )
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None


def _parser() -> Parser:
    result = Parser("rtl.compile", DESCRIPTION, EXAMPLES)
    result.add_argument(
        "--quantized",
        type=Path,
        default=MODEL,
        metavar="DIR",
        help=f"folder that quant.calibrate wrote (default: {MODEL})",
    )
    result.add_argument(
        "-o", "--out", type=Path, default=OUT, metavar="FILE", help=f"default: {OUT}"
    )
    result.add_argument(
        "--whole-last-layer",
        action="store_true",
        help="the last layer computes all tokens, also where the head reads the first alone: "
        "same logits, later",
    )
    result.add_argument(
        "--dump",
        nargs="?",
        const="",
        metavar="FILE",
        help="list the stream instead of writing it; with FILE, list that one: 1 where a CRC is "
        "wrong",
    )
    result.add_argument(
        "--image",
        type=Path,
        metavar="FILE",
        help="write one file in place of the two: header, stream and rows",
    )
    result.add_argument(
        "--check",
        type=Path,
        metavar="FILE",
        help="check such a file and the rules of its stream, list its contents and stop",
    )
    add_json(result)
    add_config_options(result)
    result.set_defaults(lanes=None, out=None)  # whether they were given
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _facts(image: Image, path: Path) -> dict[str, object]:
    """Print what an image holds; the same for JSON."""
    shape = array(image.lanes, image.columns)
    print(f"{path}: {len(image_bytes(image)):,} bytes for {shape}")
    print(f"model: {image.model.hex()}")
    print(f"stream: {len(image.stream):,} bytes at {image.stream_offset:,}")
    print(f"rows: {image.row_count:,} of {image.row_bytes:,} bytes at {image.rows_offset:,}")
    return {
        "image": str(path),
        "image_bytes": len(image_bytes(image)),
        "model": image.model.hex(),
        "lanes": image.lanes,
        "columns": image.columns,
        "stream_offset": image.stream_offset,
        "stream_bytes": len(image.stream),
        "rows_offset": image.rows_offset,
        "row_count": image.row_count,
        "row_bytes": image.row_bytes,
    }


def _alone(options: argparse.Namespace) -> None:
    """Raise ValueError where an option stands beside one that leaves it without a meaning."""
    chosen = {name: value for name, value in given(options).items() if value}
    chosen |= {"whole_last_layer": options.whole_last_layer}
    written = {"out": options.out, "image": options.image}
    for reader, file, others in (
        ("check", options.check, written | {"dump": options.dump is not None} | chosen),
        ("dump", options.dump, written | {"json": options.json} | (chosen if options.dump else {})),
    ):
        for name, value in others.items():
            if file is not None and value:
                word = f"--{name.replace('_', '-')}"
                raise UserError(f"{word} has no meaning beside --{reader}: leave out one of them")


def _check(path: Path) -> dict[str, object]:
    """Print what an image holds; the same for JSON.

    Raises
    ------
    Different
        Its stream breaks a rule.
    ValueError
        It is no image, or no hardware takes its stream.
    """
    try:
        image = read_image(path.read_bytes())
        figures, wrong = _facts(image, path), violation(image.stream)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    if wrong:
        raise Different(f"{path} breaks a rule of docs/architecture.md: {wrong}")
    return figures


def _run(options: argparse.Namespace) -> int:
    _alone(options)
    if options.check:
        figures = _check(options.check)
        if options.json:
            write_json(options.json, figures)
        return 0
    if options.dump:
        _dump(Path(options.dump))
        return 0
    options.lanes, options.out = options.lanes or Config.lanes, options.out or OUT
    config_of(options)  # what it refuses is said first
    if options.dump is None and not options.image:
        check_written(options.out, "FILE")
    if not (options.quantized / DESCRIPTION_FILE).is_file():
        raise UserError(
            f"--quantized {options.quantized} holds no quantized model: calibrate first, "
            f"`python -m quant.calibrate --model CHECKPOINT --data TEXTS --out {options.quantized}`"
        )
    model, info = load(options.quantized)
    config = sized([model], given(options), fixed_tokens(model, info))
    if (info.get("spec") or {}).get("given"):
        print("note: the rows of the tokens are zeros: each input brings its own", file=sys.stderr)
    program = compile_model(model, config, whole_last_layer=options.whole_last_layer)
    stream = program.stream()
    if options.dump is not None:
        for line in listing(stream, {i: step.name for i, step in enumerate(program.steps)}):
            print(line)
        return 0
    stage(f"for accelerators of at least {' '.join(options_of(config))}")
    if options.image:
        made = image_of(model, program)
        write_if_changed(options.image, image_bytes(made))
        if read_image(options.image.read_bytes()) != made:
            raise ToolError(f"{options.image}: what was written cannot be read back")
        figures = _facts(made, options.image) | {"configuration": config.as_dict()}
        if options.json:
            write_json(options.json, figures)
        return 0
    table = embedding_table(model, config.lanes)
    rows = options.out.with_suffix(f".rows{options.out.suffix}")
    write_if_changed(options.out, stream)
    write_if_changed(rows, table.tobytes())
    figures = {
        "model": identity_of(model).hex(),
        "stream": str(options.out),
        "stream_bytes": len(stream),
        "rows": str(rows),
        "row_count": len(table),
        "row_bytes": table.shape[1],
        "tokens": program.tokens,
        "row_tiles": program.row_tiles,
        "configuration": config.as_dict(),
    }
    print(f"model: {figures['model']}")
    print(f"{options.out}: {len(stream):,} bytes, {len(program.steps):,} descriptors")
    print(f"{rows}: {len(table):,} rows of {table.shape[1]:,} bytes")
    print(
        f"takes up to {program.tokens:,} tokens on {array(config.lanes, config.tile_columns)}, or "
        f"sequences of together {program.row_tiles:,} row tiles of {config.lanes} tokens"
    )
    if options.json:
        write_json(options.json, figures)
    folder = ("--quantized", options.quantized) if options.quantized else ()
    then("tb.generate", "accelerator", "--lanes", config.lanes, *folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compile a quantized model to the command stream that an accelerator reads.

Writes model.bin, the stream, and model.rows.bin, the flat embedding table that the accelerator's
`request` port indexes: rows of whole words, tokens first, then the positions of each type.

examples:
  python -m rtl.compile
  python -m rtl.compile --model build/bert-tiny-imdb --lanes 16 -o build/model.bin
  python -m rtl.compile --lanes 16 --dump
  python -m rtl.compile --dump build/model.bin
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from cli.files import write_if_changed

from golden.store import load
from rtl.compile import MODEL
from rtl.compile.program import compile_model, embedding_table
from rtl.interface.command import Flag, Opcode, decode
from rtl.interface.options import add_config_options, config_of

OUT = Path("build/model.bin")


def listing(stream: bytes, names: dict[int, str] | None = None) -> Iterator[str]:
    """A line a descriptor: offset, opcode, what it computes, flags, fields, payload, CRC.

    names
        What the descriptors compute, by their number, where it is known.

    Raises
    ------
    ValueError
        The stream is not one; see `rtl.interface.command.decode`.
    """
    lanes = 1
    for number, item in enumerate(decode(stream)):
        if item.opcode is Opcode.HEADER:
            lanes = item.values["lanes"]
        flags = "|".join(flag.name or "" for flag in Flag if flag in item.flags)
        shown = [f"{key}={_shown(key, value)}" for key, value in item.values.items()]
        payload = item.payload_bytes(lanes)
        parts = [
            f"{item.offset:>9}",
            f"{item.opcode.name:<6}",
            f"{(names or {}).get(number, ''):<22}",
            *([flags] if flags else []),
            *shown,
            *([f"+ {payload} bytes"] if payload else []),
            "" if item.crc_good else "CRC WRONG",
        ]
        yield " ".join(parts).rstrip()


def _shown(key: str, value: int) -> str:
    return value.to_bytes(4, "little").decode("ascii") if key == "magic" else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m rtl.compile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--model",
        type=Path,
        default=MODEL,
        metavar="DIR",
        help=f"quantized model; default: {MODEL}",
    )
    parser.add_argument("-o", "--out", type=Path, default=OUT, help=f"default: {OUT}")
    parser.add_argument(
        "--first-tile-only",
        action="store_true",
        help="the last layer computes the row tile of the first token alone: same logits, sooner",
    )
    parser.add_argument(
        "--dump",
        nargs="?",
        const="",
        metavar="FILE",
        help="list the stream instead of writing it; with FILE, list that one",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    add_config_options(parser)
    options = parser.parse_args()
    try:
        return _run(options)
    except (ValueError, OSError) as error:
        print(f"rtl.compile: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("rtl.compile: interrupted", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace) -> int:
    if options.dump:
        for line in listing(Path(options.dump).read_bytes()):
            print(line)
        return 0
    config = config_of(options)
    model, _ = load(options.model)
    program = compile_model(model, config, first_tile_only=options.first_tile_only)
    stream = program.stream()
    if options.dump is not None:
        for line in listing(stream, {i: step.name for i, step in enumerate(program.steps)}):
            print(line)
        return 0
    table = embedding_table(model, config.lanes)
    rows = options.out.with_suffix(f".rows{options.out.suffix}")
    write_if_changed(options.out, stream)
    write_if_changed(rows, table.tobytes())
    figures = {
        "stream": str(options.out),
        "stream_bytes": len(stream),
        "rows": str(rows),
        "row_count": len(table),
        "row_bytes": table.shape[1],
        "tokens": program.tokens,
        "configuration": config.as_dict(),
    }
    print(f"{options.out}: {len(stream):,} bytes, {len(program.steps)} descriptors")
    print(f"{rows}: {len(table):,} rows of {table.shape[1]} bytes")
    print(f"takes up to {program.tokens} tokens on {config.lanes} lanes")
    if options.json:
        write_if_changed(options.json, json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

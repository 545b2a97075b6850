"""Cut test vectors of single units out of golden runs on real reviews.

examples:
  python -m tb.vectors
  python -m tb.vectors --unit softmax --text "That movie was terrible!"
  python -m tb.vectors --unit layernorm --samples 8 --tokens 64 --out build/layernorm
  python -m tb.vectors --ids sequences.txt --limit 100

For every unit there are UNIT/CASE.npz (all arrays of the case) and UNIT/CASE/ARRAY.hex (one array:
a value a line, two's complement, row by row, for $readmemh); index.json says which case comes from
which text and tensor, and the format, shape and direction of each array.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from golden import store
from golden.model import Model
from tb.cases import UNITS, Case, Tensor, Traced, cut
from tb.sequences import Sequence, from_file, from_texts, reviews

INDEX = "index.json"
FORMAT = "bert2rtl vectors"
VERSION = 1


def write(
    out: Path, model: Model, sequences: list[Sequence], units: list[str], limit: int, info: Any
) -> dict[str, Any]:
    """Write the vectors of `units` into `out`, which then holds nothing else; returns the index.

    The folder is made whole under a temporary name and renamed; an older one with vectors is
    replaced.

    Raises
    ------
    ValueError
        `out` exists and holds something else than vectors, or a sequence does not suit the model.
    """
    if out.exists() and not (out / INDEX).is_file() and (out.is_file() or any(out.iterdir())):
        raise ValueError(
            f"{out}: it exists and has no {INDEX}, so it holds something else than vectors: "
            "choose another folder with --out"
        )
    new = out.with_name(f".{out.name}.{os.getpid()}")
    old = out.with_name(f".{out.name}.{os.getpid()}.old")
    index: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "model": info,
        "sequences": [
            {"source": x.source, "ids": x.ids, "types": x.types, "attend": x.attend}
            for x in sequences
        ],
        "units": {unit: [] for unit in units},
    }
    try:
        new.mkdir(parents=True)
        for number, sequence in enumerate(sequences):
            run = Traced(model, sequence, limit)
            for unit in units:
                for case in cut(unit, run):
                    index["units"][unit].append(_write_case(new, unit, number, case))
        text = json.dumps(index, indent=1, ensure_ascii=False) + "\n"
        (new / INDEX).write_text(text, encoding="utf-8")
        if out.exists():
            out.replace(old)
        new.replace(out)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if old.exists() and not out.exists():
            old.replace(out)
        shutil.rmtree(old, ignore_errors=True)
    return index


def read(out: Path, unit: str) -> Iterator[Case]:
    """The cases of a unit that write() left in `out`.

    Raises
    ------
    ValueError
        The folder, a file or the unit is missing or damaged.
    """
    try:
        index = json.loads((out / INDEX).read_text(encoding="utf-8"))
        if index["format"] != FORMAT or index["version"] != VERSION:
            raise ValueError(f"not {FORMAT} of version {VERSION}")
        if unit not in index["units"]:
            raise ValueError(f"no vectors of {unit!r}, only of {', '.join(index['units'])}")
        for entry in index["units"][unit]:
            content = BytesIO((out / entry["npz"]).read_bytes())
            with np.load(content, allow_pickle=False) as arrays:
                tensors = {
                    name: Tensor(arrays[name], array["bits"], array["signed"])
                    for name, array in entry["arrays"].items()
                }
            sides: dict[str, dict[str, Tensor]] = {"input": {}, "output": {}}
            for name, array in entry["arrays"].items():
                sides[array["direction"]][name] = tensors[name]
            yield Case(entry["tensor"], sides["input"], sides["output"])
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{out}: {error}: make it again with `python -m tb.vectors`") from error


def _write_case(folder: Path, unit: str, number: int, case: Case) -> dict[str, Any]:
    name = f"{number}.{case.name}"
    directory = folder / unit / name
    directory.mkdir(parents=True)
    arrays = {}
    for direction, tensors in (("input", case.inputs), ("output", case.outputs)):
        for array, tensor in tensors.items():
            path = directory / f"{array}.hex"
            path.write_text(_hex(tensor), encoding="ascii")
            arrays[array] = {
                "direction": direction,
                "hex": str(path.relative_to(folder)),
                "bits": tensor.bits,
                "signed": tensor.signed,
                "shape": list(tensor.values.shape),
            }
    packed = BytesIO()
    tensors = case.inputs | case.outputs
    np.savez_compressed(packed, allow_pickle=False, **{k: t.values for k, t in tensors.items()})
    npz = folder / unit / f"{name}.npz"
    npz.write_bytes(packed.getvalue())
    return {
        "sequence": number,
        "tensor": case.name,
        "npz": str(npz.relative_to(folder)),
        "arrays": arrays,
    }


def _hex(tensor: Tensor) -> str:
    """A comment with the format, then a value a line; two's complement on `bits` bits."""
    digits, mask = -(-tensor.bits // 4), (1 << tensor.bits) - 1
    lines = [f"// {tensor.format} {list(tensor.values.shape)}"]
    lines += [f"{value & mask:0{digits}x}" for value in tensor.values.reshape(-1).tolist()]
    return "\n".join(lines) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tb.vectors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--model",
        type=Path,
        default=Path("build/bert-tiny-imdb"),
        help="quantized model, a folder of quant.calibrate (default %(default)s)",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--text", action="append", help="a text; may be given several times")
    source.add_argument(
        "--samples", type=int, default=2, help="number of IMDB reviews (default %(default)s)"
    )
    source.add_argument("--ids", type=Path, help="file with a line of token ids a sequence")
    parser.add_argument(
        "--tokens", type=int, default=128, help="longest sequence of a text (default %(default)s)"
    )
    parser.add_argument(
        "--unit", choices=[*UNITS, "all"], default="all", help="which vectors (default all)"
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=4096,
        help="values or rows of a case, evenly spaced (default %(default)s)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("build/vectors"), help="folder (default %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts as JSON")
    return parser


def _command(arguments: argparse.Namespace) -> None:
    model, info = store.load(arguments.model)
    for name in ("tokens", "limit"):
        least = {"tokens": 2, "limit": 1}[name]
        if getattr(arguments, name) < least:
            raise ValueError(f"--{name} {getattr(arguments, name)}: it must be {least} or more")
    tokens = min(arguments.tokens, model.shape.tokens)
    if arguments.ids:
        sequences = from_file(arguments.ids)
    else:
        texts = arguments.text or reviews(arguments.samples)
        sequences = from_texts(texts, arguments.model, tokens)
    units = list(UNITS) if arguments.unit == "all" else [arguments.unit]
    checkpoint = {"directory": str(arguments.model), "checkpoint": info.get("checkpoint")}
    index = write(arguments.out, model, sequences, units, arguments.limit, checkpoint)
    counts = {}
    for unit, cases in index["units"].items():
        arrays = [array for case in cases for array in case["arrays"].values()]
        values = {
            direction: sum(int(np.prod(x["shape"])) for x in arrays if x["direction"] == direction)
            for direction in ("input", "output")
        }
        counts[unit] = {"cases": len(cases)} | values
    print(f"{'unit':12}{'cases':>7}{'inputs':>12}{'outputs':>12}")
    for unit, count in counts.items():
        print(f"{unit:12}{count['cases']:7}{count['input']:12,}{count['output']:12,}")
    print(f"{len(sequences)} sequences, written to {arguments.out}/{INDEX}")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        temporary = arguments.json.with_name(f".{arguments.json.name}.{os.getpid()}")
        temporary.write_text(json.dumps(counts, indent=1) + "\n")
        temporary.replace(arguments.json)


def main(argv: list[str] | None = None) -> int:
    """Exit code 0, 2 after one line for a refused input, 130 when interrupted."""
    arguments = _parser().parse_args(argv)
    try:
        _command(arguments)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

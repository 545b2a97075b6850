"""Test vectors of single units as files, cut out of golden runs.

For every unit there are files UNIT/VECTOR.npz, which hold all arrays of the vector; index.json says
which vector comes from which text and tensor, and the format, shape and direction of each array.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from cli.errors import UserError

import numpy as np

from golden.model import Model
from tb.cut import Tensor, Traced, Vector, cut
from tb.sequences import Sequence

INDEX = "index.json"
FORMAT = "bert2rtl vectors"
VERSION = 1
#: Values or rows of a vector, unless another limit is given.
LIMIT = 4096


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
        raise UserError(
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
                for vector in cut(unit, run):
                    index["units"][unit].append(_write(new, unit, number, vector))
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


def read(out: Path, unit: str) -> Iterator[Vector]:
    """The vectors of a unit that write() left in `out`.

    Raises
    ------
    ValueError
        The folder, a file or the unit is missing or damaged.
    """
    try:
        index = json.loads((out / INDEX).read_text(encoding="utf-8"))
        if index["format"] != FORMAT or index["version"] != VERSION:
            raise UserError(f"not {FORMAT} of version {VERSION}")
        if unit not in index["units"]:
            raise UserError(f"no vectors of {unit!r}, only of {', '.join(index['units'])}")
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
            yield Vector(entry["tensor"], sides["input"], sides["output"])
    except (
        *(OSError, ValueError, KeyError, TypeError, RecursionError, zipfile.BadZipFile),
    ) as error:
        raise UserError(f"{out}: {error}: make it again with `python -m sim.vectors`") from error


def _write(folder: Path, unit: str, number: int, vector: Vector) -> dict[str, Any]:
    name = f"{number}.{vector.name}"
    (folder / unit).mkdir(parents=True, exist_ok=True)
    arrays = {}
    for direction, tensors in (("input", vector.inputs), ("output", vector.outputs)):
        for array, tensor in tensors.items():
            arrays[array] = {
                "direction": direction,
                "bits": tensor.bits,
                "signed": tensor.signed,
                "shape": list(tensor.values.shape),
            }
    packed = BytesIO()
    tensors = vector.inputs | vector.outputs
    np.savez_compressed(packed, allow_pickle=False, **{k: t.values for k, t in tensors.items()})
    npz = folder / unit / f"{name}.npz"
    npz.write_bytes(packed.getvalue())
    return {
        "sequence": number,
        "tensor": vector.name,
        "npz": str(npz.relative_to(folder)),
        "arrays": arrays,
    }

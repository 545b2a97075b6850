"""Test vectors of single units as files, cut out of golden runs.

UNIT/NUMBER.TENSOR.npz holds the vector of a tensor of sequence NUMBER. Its arrays are called
`input.NAME.FORMAT` and `output.NAME.FORMAT`, with a format such as int20 or uint6. index.json has
the model, the sequences, and the files of each unit.
"""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

from cli.errors import UserError
from cli.files import replacing, write_json

import numpy as np

from golden.model import Model
from tb.cut import Sequence, Tensor, Traced, Vector, cut

INDEX = "index.json"
#: Values or rows of a vector, unless another limit is given.
LIMIT = 4096


class NoVectors(UserError):
    """The model uses none of the units; the message says so."""


def write(
    out: Path, model: Model, sequences: list[Sequence], units: list[str], limit: int, info: Any
) -> dict[str, Counter[str]]:
    """Write the vectors of `units` into `out`, which then holds nothing else.

    Returns how many vectors, and values of `input` and `output`, each unit has.

    Raises UserError: `out` exists and holds something else than vectors, or a sequence does not
    suit the model. NoVectors: no unit has any.
    """
    if out.exists() and not (out / INDEX).is_file() and (out.is_file() or any(out.iterdir())):
        raise UserError(
            f"{out}: it exists and has no {INDEX}, so it holds something else than vectors: "
            "choose another folder with --out"
        )
    files: dict[str, list[str]] = {unit: [] for unit in units}
    counts: dict[str, Counter[str]] = {unit: Counter() for unit in units}
    with replacing(out) as new:
        for number, sequence in enumerate(sequences):
            run = Traced(model, sequence, limit)
            for unit in units:
                (new / unit).mkdir(parents=True, exist_ok=True)
                for vector in cut(unit, run):
                    arrays = {}
                    for side, tensors in (("input", vector.inputs), ("output", vector.outputs)):
                        for name, tensor in tensors.items():
                            arrays[f"{side}.{name}.{tensor.format}"] = tensor.values
                            counts[unit][side] += tensor.values.size
                    counts[unit]["vectors"] += 1
                    files[unit].append(f"{unit}/{number}.{vector.name}.npz")
                    np.savez_compressed(new / files[unit][-1], allow_pickle=False, **arrays)
        if not any(files.values()):
            raise NoVectors(
                f"the model has no {', '.join(units)}: choose another --unit, or a model with it"
            )
        index = {"model": info, "sequences": [asdict(x) for x in sequences], "units": files}
        write_json(new / INDEX, index)
    return counts


def read(out: Path, unit: str) -> Iterator[Vector]:
    """The vectors of a unit that write() left in `out`.

    Raises UserError: The folder, a file or the unit is missing or damaged.
    """
    try:
        files = json.loads((out / INDEX).read_text(encoding="utf-8"))["units"]
        if unit not in files:
            raise UserError(f"no vectors of {unit!r}, only of {', '.join(files)}")
        for file in files[unit]:
            sides: dict[str, dict[str, Tensor]] = {"input": {}, "output": {}}
            with np.load(BytesIO((out / file).read_bytes()), allow_pickle=False) as arrays:
                for key in arrays.files:
                    side, name, form = key.split(".")
                    bits = int(form.removeprefix("u").removeprefix("int"))
                    sides[side][name] = Tensor(arrays[key], bits, form.startswith("i"))
            yield Vector(Path(file).stem.partition(".")[2], sides["input"], sides["output"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError, zipfile.BadZipFile) as error:
        raise UserError(f"{out}: {error}: make it again with `python -m sim.vectors`") from error

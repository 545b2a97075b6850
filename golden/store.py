"""A quantized model on disk: quantized.npz holds the tensors, quantized.json all that is readable.

The JSON carries the shape, every multiplier that belongs to a whole tensor, the hashes of the .npz
and of the JSON itself, and what calibration wants to say about the model (`info`: scales, formats,
hash of the checkpoint, version, proof of no overflow). Nothing in either file runs code when it is
read.
"""

import json
import os
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from hashlib import file_digest, sha256
from io import BytesIO
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from golden.errors import UserError
from golden.model import Model

ARRAYS = "quantized.npz"
DESCRIPTION = "quantized.json"
FORMAT = "bert2rtl quantized model"
VERSION = 9


def save(model: Model, directory: str | Path, info: dict[str, Any]) -> None:
    """Write the model into directory, which is made if it is missing.

    info is anything that JSON can hold. The same model and info give the same bytes. Both files are
    written under temporary names first, so an interruption leaves what was there before, or two
    files whose hashes do not match, which load() refuses.
    """
    entries = dict(parts(model))
    arrays = {name: value for name, value in entries.items() if isinstance(value, np.ndarray)}
    values = {
        name: int(value) if isinstance(value, np.integer) else value
        for name, value in entries.items()
        if name not in arrays
    }
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    names = ARRAYS, DESCRIPTION
    packed, described = (directory.joinpath(f".{name}.{os.getpid()}") for name in names)
    try:
        with packed.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        with packed.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
        description = {
            "format": FORMAT,
            "version": VERSION,
            "sha256": digest,
            "model": values,
            "info": info,
        }
        description = json.loads(json.dumps(description, allow_nan=False))  # as it will be read
        description["description_sha256"] = hash_of(description)
        text = json.dumps(description, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        described.write_text(text, encoding="utf-8", newline="")
        for temporary, name in zip((packed, described), names):
            temporary.replace(directory.joinpath(name))
    finally:
        packed.unlink(missing_ok=True)
        described.unlink(missing_ok=True)


def hash_of(description: dict[str, Any]) -> str:
    """SHA-256 of everything in a description but this hash."""
    rest = {name: value for name, value in description.items() if name != "description_sha256"}
    return sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def info_of(directory: str | Path) -> dict[str, Any]:
    """The info of the model in directory, without its tensors; ValueError as load."""
    info: dict[str, Any] = _read_description(Path(directory, DESCRIPTION))["info"]
    return info


def load(directory: str | Path) -> tuple[Model, dict[str, Any]]:
    """The model in directory and its info.

    ValueError with one line that names the file when one is missing, damaged, of another format or
    version, or holds a value that a model may not have.
    """
    directory = Path(directory)
    description = _read_description(directory.joinpath(DESCRIPTION))
    path = directory.joinpath(ARRAYS)
    data = _read(path)
    if sha256(data).hexdigest() != description["sha256"]:
        raise UserError(
            f"{path}: its SHA-256 is not the one in {DESCRIPTION}; the files are damaged or of "
            "two calibrations; calibrate again"
        )
    try:
        with np.load(BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: not a readable .npz file ({error}); calibrate again") from error
    try:
        model = _build(Model, "", {**description["model"], **arrays})
    except ValueError as error:
        raise UserError(f"{directory}: {error}; calibrate again") from error
    return model, description["info"]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UserError(
            f"{path}: {reason}; allowed is a directory that `python -m quant.calibrate` wrote"
        ) from error


def _read_description(path: Path) -> dict[str, Any]:
    content = _read(path)
    try:
        description = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not readable as JSON ({error}); calibrate again") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise UserError(f'{path}: its "format" is not "{FORMAT}"; calibrate again')
    version = description.get("version")
    if type(version) is not int or version != VERSION:
        raise UserError(f"{path}: version {version!r}; allowed {VERSION}; calibrate again")
    for key, kind in (("sha256", str), ("model", dict), ("info", dict)):
        if not isinstance(description.get(key), kind):
            raise UserError(f'{path}: "{key}" is missing or of a wrong type; calibrate again')
    if description.get("description_sha256") != hash_of(description):
        raise UserError(f"{path}: its description_sha256 is of another text; calibrate again")
    return description


def parts(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Arrays and plain values by dotted name; a tuple as its length and its members.

    What is None is left out.
    """
    members: Iterable[tuple[object, Any]] = ()
    if is_dataclass(value):
        members = [(field.name, getattr(value, field.name)) for field in fields(value)]
    elif isinstance(value, tuple):
        yield name, len(value)
        members = enumerate(value)
    elif value is not None:
        yield name, value
    for member, its in members:
        yield from parts(its, f"{name}.{member}" if name else str(member))


def _build(kind: Any, name: str, entries: dict[str, Any]) -> Any:
    """The inverse of `parts` for a value of the type `kind`."""
    members = [member for member in get_args(kind) if member is not NoneType]
    if get_origin(kind) is UnionType:
        present = any(key == name or key.startswith(f"{name}.") for key in entries)
        return _build(members[0], name, entries) if present else None
    if get_origin(kind) is tuple:
        count = _entry(name, entries)
        if not isinstance(count, int) or not 0 <= count <= 255:
            raise UserError(f"{name} is {count!r}; allowed is a count of 0..255")
        return tuple(_build(members[0], f"{name}.{i}", entries) for i in range(count))
    if is_dataclass(kind):
        constructor: Any = kind
        values = {
            field: _build(hint, f"{name}.{field}" if name else field, entries)
            for field, hint in get_type_hints(kind).items()
        }
        try:
            return constructor(**values)
        except ValueError as error:
            raise UserError(f"{name}: {error}" if name else str(error)) from error
    return _entry(name, entries)


def _entry(name: str, entries: dict[str, Any]) -> Any:
    if name not in entries:
        raise UserError(f"{name} is missing")
    return entries[name]

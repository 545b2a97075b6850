"""The columns of a Parquet file, a few rows at a time, by pyarrow.

Pages are fetched when they are needed and some rows decoded at a time: a file of any size takes the
memory of a batch of rows and of a page or two of each column that is read.

Files that Hugging Face's `datasets` writes have integers for classes, and the names of these in the
schema's metadata: a feature ClassLabel under the key "huggingface", alone or in a list.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cli.errors import ToolError, UserError
from cli.extras import how

SUFFIXES = (".parquet", ".pq")
ROWS = 256
"""Decoded at a time."""
BUFFER_BYTES = 1 << 20
"""Read ahead of a column."""
UNKNOWN = (-1, -100)
"""No class: of `datasets` for a text, of transformers for a word."""


class ParquetError(UserError):
    """The file cannot be read; the message says which, and where."""


def names(path: Path) -> list[str]:
    """The names of its columns, nested ones by that of the outermost.

    Raises
    ------
    ParquetError
        It is no Parquet file.
    OSError
        It cannot be opened.
    ToolError
        The package pyarrow is missing.
    """
    with _opened(path) as (_, found):
        return found


def classes(path: Path) -> dict[str, list[str]]:
    """The names of the classes in each column of a ClassLabel, in the order of their integers.

    None where these are "0", "1" ... alone, as `datasets` calls classes of which it knows the
    number only. Raises as `names`, and ParquetError for metadata that cannot be read.
    """
    with _opened(path) as (file, _):
        metadata = file.schema_arrow.metadata or {}
    try:
        content = json.loads(metadata.get(b"huggingface", b"{}"))
        features = (content.get("info") or {}).get("features") or {}
        named = {column: _names_of(feature) for column, feature in features.items()}
    except (ValueError, AttributeError, KeyError, RecursionError):
        raise ParquetError(
            f"{path}: the key huggingface of its metadata holds no features of `datasets`: write "
            "the file again, with or without them"
        ) from None
    return {
        column: found
        for column, found in named.items()
        if found is not None and found != [str(i) for i in range(len(found))]
    }


def _names_of(feature: Any) -> list[str] | None:
    """Those of a ClassLabel, or of one in lists."""
    if isinstance(feature, list) and len(feature) == 1:
        return _names_of(feature[0])
    if not isinstance(feature, dict):
        return None
    if feature.get("_type") == "ClassLabel":
        found = feature["names"]
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise ValueError
        return found
    return _names_of(feature.get("feature"))


def rows(
    path: Path, columns: Sequence[str], named: Mapping[str, Sequence[str]] | None = None
) -> Iterator[tuple[int, dict[str, object]]]:
    """Its rows, numbered from 1, with the values of these columns as Python has them.

    named
        Names by column that stand in place of its integers, as `classes` gives them; None in place
        of UNKNOWN.

    Raises
    ------
    ParquetError, OSError, ToolError
        As `names`; or a column is damaged, or has an integer beyond its names.
    """
    number = 0
    with _opened(path) as (file, _):
        batches = file.iter_batches(batch_size=ROWS, columns=list(columns), use_threads=False)
        while True:
            with _named(f"{path} cannot be read behind row {number}"):
                batch = next(batches, None)
            if batch is None:
                return
            parts = [_values(path, number, name, batch.column(name)) for name in columns]
            for values in zip(*parts):
                number += 1
                row = dict(zip(columns, values))
                for name, names in (named or {}).items():
                    if name in row:
                        row[name] = _named_value(path, number, name, row[name], names)
                yield number, row


def _named_value(path: Path, row: int, column: str, value: Any, names: Sequence[str]) -> object:
    if isinstance(value, list):
        return [_named_value(path, row, column, one, names) for one in value]
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return value
    if value in UNKNOWN:
        return None
    if not 0 <= value < len(names):
        raise ParquetError(
            f"{path}: row {row}: {column!r} is {value}: the file names {len(names)} classes, "
            f"0 to {len(names) - 1}"
        )
    return names[int(value)]


def _values(path: Path, before: int, name: str, array: Any) -> list[object]:
    try:
        with _named(f"{path}: {name!r} cannot be read behind row {before}"):
            return list(array.to_pylist())
    except ParquetError:
        for number, value in enumerate(array, before + 1):
            with _named(f"{path}: row {number}: {name!r} cannot be read"):
                value.as_py()
        raise


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, list[str]]]:
    """The file, and the names of its columns."""
    try:
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise ToolError(
            f"{path}: reading Parquet needs the package pyarrow: {how('pyarrow')}"
        ) from None
    with path.open("rb") as file:
        with _named(f"{path} is no Parquet file, or cut"):
            opened = parquet.ParquetFile(
                file, pre_buffer=False, buffer_size=BUFFER_BYTES, page_checksum_verification=True
            )
            columns = list(opened.schema_arrow.names)
        yield opened, columns


@contextmanager
def _named(what: str) -> Iterator[None]:
    """What pyarrow says of bytes that it cannot read, in one line."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, ValueError, OverflowError) as error:
        raise ParquetError(f"{what}: {' '.join(str(error).split())[:200]}") from None

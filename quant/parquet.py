"""The columns of a Parquet file, a few rows at a time, by pyarrow.

Pages are fetched when they are needed and some rows decoded at a time: a file of any size takes the
memory of a batch of rows and of a page or two of each column that is read.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cli.command import ToolError

SUFFIXES = (".parquet", ".pq")
PACKAGE = "pyarrow==26.0.1"
ROWS = 256
"""Decoded at a time."""
BUFFER_BYTES = 1 << 20
"""Read ahead of a column."""


class ParquetError(ValueError):
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


def rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, object]]]:
    """Its rows, numbered from 1, with the values of these columns as Python has them.

    Raises
    ------
    ParquetError, OSError, ToolError
        As `names`; or a column is there twice, or damaged.
    """
    number = 0
    with _opened(path) as (file, found):
        for name in columns:
            if found.count(name) > 1:
                raise ParquetError(f"{path} has {found.count(name)} columns {name!r}: rename one")
        batches = file.iter_batches(batch_size=ROWS, columns=list(columns), use_threads=False)
        while True:
            with _named(f"{path} cannot be read behind row {number}"):
                batch = next(batches, None)
            if batch is None:
                return
            parts = [_values(path, number, name, batch.column(name)) for name in columns]
            for values in zip(*parts):
                number += 1
                yield number, dict(zip(columns, values))


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
            f"{path}: reading Parquet needs a package: run `make setup-parquet`, or "
            f"pip install {PACKAGE}"
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

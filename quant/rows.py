"""The rows of a file: a table (.csv, .tsv), an object or a text a line (.jsonl, .txt).

A .csv is separated by commas, semicolons or tabs, whichever its header shows, and quoted as RFC
4180 says. In a .tsv a line is a row and a quote a character, unless it encloses a whole field.
"""

import codecs
import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from quant import parquet

_CSV_FIELD_LIMIT = 1 << 24
_DELIMITERS = ",;\t"

Row = tuple[int, dict[str, object]]  # number of line or row from 1, values by column


class TextError(ValueError):
    """A text source that cannot be read; the message says where, why and what is allowed."""


def place(path: Path, line: int) -> str:
    return f"{path}: row {line}" if path.suffix.lower() in parquet.SUFFIXES else f"{path}:{line}"


def rows(path: Path, encoding: str = "utf-8") -> Iterator[Row]:
    """The rows of a file with their line numbers; every failure is a TextError."""
    kinds = {".csv": _csv_rows, ".tsv": _tsv_rows, ".jsonl": _jsonl_rows, ".txt": _plain_rows}
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise TextError(f"{path}: unknown kind of file, use {', '.join(kinds)} or .parquet")
    yield from decoded(path, encoding, kind)


def decoded(
    path: Path, encoding: str, kind: Callable[[Path, Iterator[str]], Iterator[Any]]
) -> Iterator[Any]:
    """What `kind` makes of the lines of a file; every failure is a TextError."""
    is_utf8 = codecs.lookup(encoding).name == "utf-8"
    try:
        with path.open(encoding="utf-8-sig" if is_utf8 else encoding, newline="") as file:
            yield from kind(path, file)
    except UnicodeError as error:
        reason, start = getattr(error, "reason", str(error)), getattr(error, "start", None)
        place = "" if start is None else f" at byte {start}"
        raise TextError(
            f"{path} is not {'UTF-8' if is_utf8 else encoding} text: {reason}{place}: give its "
            "--encoding (latin-1, cp1252, utf-16 ...)"
        ) from None
    except OSError as error:
        raise TextError(f"cannot read {path}: {error.strerror}") from None


def _csv_rows(path: Path, file: Iterator[str]) -> Iterator[Row]:
    csv.field_size_limit(_CSV_FIELD_LIMIT)
    first = next(file, "")
    delimiter = max(_DELIMITERS, key=first.count)

    def lines() -> Iterator[str]:
        yield first
        yield from file

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        for values in reader:
            if values:
                yield reader.line_num, _row(path, reader.line_num, header, values)
    except csv.Error as error:
        raise TextError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def _tsv_rows(path: Path, file: Iterator[str]) -> Iterator[Row]:
    header: list[str] | None = None
    for number, line in enumerate(file, 1):
        values = [_unquoted(value) for value in line.rstrip("\r\n").split("\t")]
        if header is None:
            header = values
        elif line.strip():
            yield number, _row(path, number, header, values)


def _unquoted(field: str) -> str:
    inner = field[1:-1].replace('""', "")
    if len(field) > 1 and field[0] == field[-1] == '"' and '"' not in inner:
        return field[1:-1].replace('""', '"')
    return field


def _row(path: Path, line: int, header: list[str], values: list[str]) -> dict[str, object]:
    if len(values) > len(header):
        raise TextError(
            f"{path}:{line}: {len(values)} values under a header of {len(header)}: quote a text "
            "that holds the separator"
        )
    missing: list[str | None] = [None] * (len(header) - len(values))
    return dict(zip(header, [*values, *missing]))


def _jsonl_rows(path: Path, file: Iterator[str]) -> Iterator[Row]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise TextError(f"{path}:{number}: not JSON: {error.msg}") from None
        except (ValueError, RecursionError):  # an integer of too many digits, too many brackets
            raise TextError(f"{path}:{number}: not JSON that can be read") from None
        if not isinstance(row, dict):
            raise TextError(f"{path}:{number}: not a JSON object with a 'text' key")
        yield number, row


def _plain_rows(path: Path, file: Iterator[str]) -> Iterator[Row]:
    for number, line in enumerate(file, 1):
        if line.strip():
            yield number, {"text": line.strip()}

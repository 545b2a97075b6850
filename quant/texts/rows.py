"""The rows of a file: a table (.csv, .tsv), an object or a text a line (.jsonl, .txt).

A .csv is separated by commas, semicolons or tabs, whichever its header shows, and quoted as RFC
4180 says. In a .tsv a line is a row and a quote a character, unless it encloses a whole field. A
.tsv whose rows come out right only where quoted fields hold tabs and line breaks is read so; one
that can be read both ways is refused.

A file may begin with a byte order mark; lines end with CR, LF or both. Each row has a value for
each column. A column that is there twice, but for case and surrounding space, is refused where it
is read. Every failure names the file and the line in which the row begins.
"""

import codecs
import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from cli.errors import UserError

from quant.texts import parquet

_CSV_FIELD_LIMIT = 1 << 24
_DELIMITERS = ",;\t"
_MARKS = {  # longer ones first: that of UTF-16 begins that of UTF-32
    codecs.BOM_UTF32_LE: ("utf-32", "utf-32-le"),
    codecs.BOM_UTF32_BE: ("utf-32", "utf-32-be"),
    codecs.BOM_UTF8: ("utf-8", "utf-8-sig"),
    codecs.BOM_UTF16_LE: ("utf-16", "utf-16-le"),
    codecs.BOM_UTF16_BE: ("utf-16", "utf-16-be"),
}
_MARKED, _BAD = "bert2rtl-mark", "\udc00"  # an error handler, and what it puts for bad bytes

Row = tuple[int, dict[str, object]]  # number of line or row from 1, values by column
Lines = Iterator[str]


class TextError(UserError):
    """A text source that cannot be read; the message says where, why and what is allowed."""


def place(path: Path, line: int) -> str:
    """A line of a file, a row of a Parquet file; 0 for the file itself."""
    if not line:
        return str(path)
    return f"{path}: row {line}" if path.suffix.lower() in parquet.SUFFIXES else f"{path}:{line}"


def rows(path: Path, encoding: str = "utf-8") -> Iterator[Row]:
    """The rows of a file with their line numbers; every failure is a TextError.

    Of two columns with one name the second has a space behind it, for `column_of` to find both.
    """
    kinds = {".csv": _csv_rows, ".tsv": _tsv_rows, ".jsonl": _jsonl_rows, ".txt": _plain_rows}
    kind = kinds.get(path.suffix.lower())
    if path.is_dir():
        raise TextError(f"{path} is a folder: give a file")
    if kind is None:
        raise TextError(f"{path}: unknown kind of file, use {', '.join(kinds)} or .parquet")
    if kind is _tsv_rows and _is_quoted(path, encoding):
        kind = _csv_rows
    yield from decoded(path, encoding, kind)


def column_of(path: Path, line: int, found: Sequence[str], names: Sequence[str]) -> str | None:
    """The first of these names that a column has, spelled as there; None where there is none.

    Raises TextError for a name that two columns have.
    """
    for name in names:
        key = name.strip().casefold()
        same = [one for one in found if one.strip().casefold() == key]
        if len(same) > 1:
            raise TextError(
                f"{place(path, line)} has {len(same)} columns {same[0]!r}: rename one (case and "
                "surrounding space do not count)"
            )
        if same:
            return same[0]
    return None


def called(column: str) -> str:
    """A column's name in a message; pandas gives none to its index."""
    return " ".join(column.split()) or "(no name)"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what a file that cannot be read raises into a TextError."""
    try:
        yield
    except parquet.ParquetError as error:
        raise TextError(str(error)) from None
    except OSError as error:
        raise TextError(f"cannot read {path}: {error.strerror}") from None


def decoded(
    path: Path, encoding: str, kind: Callable[[Path, Lines], Iterator[Any]]
) -> Iterator[Any]:
    """What `kind` makes of the lines of a file; every failure is a TextError."""
    name = codecs.lookup(encoding).name
    shown = "UTF-8" if name == "utf-8" else encoding
    try:
        with reading(path):
            _check_mark(path, name)
            with path.open(encoding=encoding, newline="") as file:
                yield from kind(path, _checked(path, file))
    except UnicodeError as error:
        reason = getattr(error, "reason", str(error))
        if isinstance(error, UnicodeDecodeError):
            reason += f" (0x{error.object[error.start]:02x})"
        raise TextError(
            f"{place(path, _first_bad_line(path, encoding))} is not {shown} text: {reason}: give "
            "its --encoding (latin-1, cp1252, utf-16 ...)"
        ) from None


def _check_mark(path: Path, encoding: str) -> None:
    with path.open("rb") as file:
        head = file.read(4)
    for mark, names in _MARKS.items():
        if head.startswith(mark):
            if encoding not in names:
                raise TextError(
                    f"{path}:1 begins with the byte order mark of {names[0]} and is read as "
                    f"{encoding}: give --encoding {names[0]}"
                )
            return


def _checked(path: Path, file: Lines) -> Lines:
    """The lines without a byte order mark."""
    for number, line in enumerate(file, 1):
        if "\0" in line:
            raise TextError(
                f"{path}:{number} has a NUL character, which no text has: give its --encoding "
                "(utf-16 ...), or repair it"
            )
        yield line.removeprefix("\ufeff") if number == 1 else line


def _first_bad_line(path: Path, encoding: str) -> int:
    """Where the bytes are no text; 0 where its codec cannot tell."""
    try:
        with path.open(encoding=encoding, errors=_MARKED, newline="") as file:
            return next((number for number, line in enumerate(file, 1) if _BAD in line), 0)
    except UnicodeError:
        return 0


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _BAD, error.end


codecs.register_error(_MARKED, _mark)


def _csv_rows(path: Path, lines: Lines) -> Iterator[Row]:
    """A .csv, and a .tsv whose fields are quoted."""
    kind = path.suffix[1:].upper()
    csv.field_size_limit(_CSV_FIELD_LIMIT)
    first = next(lines, "")
    separators = "\t" if kind == "TSV" else _DELIMITERS
    delimiter = max(separators, key=re.sub(r'"[^"]*"', "", first).count)
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    begin = 1
    try:
        for values in reader:
            if header is None:
                header = values
            elif values and not delimiter.join(values).isspace():
                yield begin, _row(path, begin, header, values)
            begin = reader.line_num + 1
    except csv.Error as error:
        said = str(error)
        if "end of data" in said or "field limit" in said:
            said += ": a quote opens in this row that nothing closes"
        raise TextError(f"{path}:{begin}: not {kind}: {said}") from None


def _tsv_rows(path: Path, lines: Lines) -> Iterator[Row]:
    """A .tsv in which each line is a row."""
    header: list[str] | None = None
    for number, line in enumerate(lines, 1):
        values = [_unquoted(value) for value in _fields(line)]
        if header is None:
            header = values
        elif line.strip():
            yield number, _row(path, number, header, values)


def _is_quoted(path: Path, encoding: str) -> bool:
    """Whether the quotes of a .tsv enclose fields with tabs and line breaks.

    Raises TextError where the file can be read both ways, or neither.
    """
    first = next(decoded(path, encoding, _opening_quotes), None)
    if first is None:
        return False
    failures: list[TextError | None] = []
    for kind in (_tsv_rows, _csv_rows):
        try:
            for _ in decoded(path, encoding, kind):
                pass
            failures.append(None)
        except TextError as error:
            failures.append(error)
    by_line, by_quotes = failures
    if by_line and by_quotes:
        raise TextError(f"{by_line} (or, where quotes enclose fields: {by_quotes})")
    if not by_line and not by_quotes:
        raise TextError(
            f"{path}:{first}: a quote opens here that a later tab or line could be inside of: "
            "rename the file to .csv if quotes enclose its fields; if not, enclose this one and "
            "double the quotes in it"
        )
    return by_quotes is None


def _opening_quotes(path: Path, lines: Lines) -> Iterator[int]:
    """The lines with a field that begins with a quote which does not enclose it."""
    for number, line in enumerate(lines, 1):
        if '"' in line and any(f[:1] == '"' and _unquoted(f) == f for f in _fields(line)):
            yield number


def _fields(line: str) -> list[str]:
    return line.rstrip("\r\n").split("\t")


def _unquoted(field: str) -> str:
    inner = field[1:-1].replace('""', "")
    if len(field) > 1 and field[0] == field[-1] == '"' and '"' not in inner:
        return field[1:-1].replace('""', '"')
    return field


def _row(path: Path, line: int, header: list[str], values: list[str]) -> dict[str, object]:
    counted = f"{len(values)} value{'s' * (len(values) != 1)} under a header of {len(header)}"
    if not "".join(header).strip():
        raise TextError(f"{path}:1 is empty: it has to name the columns")
    if len(values) > len(header):
        raise TextError(f"{path}:{line}: {counted}: quote a text that holds the separator")
    if len(values) < len(header):
        missing = header[len(values)]
        raise TextError(f"{path}:{line}: {called(missing)!r} is missing: {counted}: leave it empty")
    return _keyed(list(zip(header, values)))


def _keyed(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dictionary; a name that is there again has spaces behind it."""
    row = dict(pairs)
    if len(row) < len(pairs):
        row = {}
        for name, value in pairs:
            while name in row:
                name += " "
            row[name] = value
    return row


def _jsonl_rows(path: Path, lines: Lines) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_keyed)
        except json.JSONDecodeError as error:
            raise TextError(f"{path}:{number}: not JSON: {error.msg}") from None
        except (ValueError, RecursionError):  # an integer of too many digits, too many brackets
            raise TextError(f"{path}:{number}: not JSON that can be read") from None
        if "\\ud" in line.lower() and not _is_text(row):
            raise TextError(f"{path}:{number}: a \\u escape is half of a pair: write both, or none")
        if not isinstance(row, dict):
            raise TextError(f"{path}:{number}: not a JSON object with a 'text' key")
        yield number, row


def _is_text(row: object) -> bool:
    """Whether UTF-8 can hold it; halves of surrogate pairs are no characters."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _plain_rows(path: Path, lines: Lines) -> Iterator[Row]:
    """A line is a row; those behind the last text are none."""
    last = 0
    for number, line in enumerate(lines, 1):
        if line.strip():
            for empty in range(last + 1, number):
                yield empty, {"text": ""}
            yield number, {"text": line.strip()}
            last = number

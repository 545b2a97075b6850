"""Texts word by word, each with its tag: what a model with a class for every token is held to.

Rows (quant.rows, .parquet) have a list of words and a list of tags, names or indices, or both as
texts, separated by spaces or in JSON. A .conll file has a word a line, its tag in the last column
and an empty line behind each text. A tag that is not there, empty or -100 says nothing of its word.
A row with a text instead of words has no tags.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quant import parquet
from quant.data_label import label_index, shown
from quant.rows import TextError, decoded, place, rows

WORD_COLUMNS = ("tokens", "words")
TAG_COLUMNS = ("ner_tags", "tags", "labels", "label", "pos_tags")
TEXT_COLUMN = "text"
CONLL = (".conll", ".bio", ".iob2")
IGNORED = -100
"""What transformers writes where a word counts for nothing."""

_DOCUMENT = "-DOCSTART-"


@dataclass(frozen=True)
class Tagged:
    """A text; of one that the file has word by word the words, and the class of each or None."""

    text: str
    words: tuple[str, ...] | None = None
    tags: tuple[int | None, ...] = ()


def stream(
    path: Path, names: Sequence[str], words: str | None, tags: str | None, encoding: str
) -> Iterator[Tagged]:
    """The texts of a file, one at a time.

    names
        Of the model's classes, for tags that are no indices.
    words, tags
        Their columns; None: the first of WORD_COLUMNS and of TAG_COLUMNS that is there.

    Raises TextError naming the file and line (of a Parquet file the row) for what cannot be read.
    """
    if path.suffix.lower() in CONLL:
        found = decoded(path, encoding, _conll)
    else:
        found = _of_rows(path, words, tags, encoding)
    for line, given, said in found:
        try:
            if isinstance(given, str):
                yield Tagged(given)
                continue
            yield Tagged(" ".join(given), given, _tags(said, len(given), names))
        except ValueError as error:
            raise TextError(f"{place(path, line)}: {error}") from None


def _conll(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, tuple[str, ...], list[str]]]:
    """Line of the first word, words, tags."""
    words: list[str] = []
    tags: list[str] = []
    first = number = 0
    for number, line in enumerate(lines, 1):
        columns = line.split()
        if columns and columns[0] == _DOCUMENT:
            continue
        if columns:
            if len(columns) < 2:
                raise TextError(f"{path}:{number}: {line.strip()[:40]!r} is one column: a word and "
                                "its tag are needed")  # fmt: skip
            first = first if words else number
            words.append(columns[0])
            tags.append(columns[-1])
        elif words:
            yield first, tuple(words), tags
            words, tags = [], []
    if words:
        yield first, tuple(words), tags


def _of_rows(
    path: Path, words: str | None, tags: str | None, encoding: str
) -> Iterator[tuple[int, str | tuple[str, ...], Any]]:
    if path.suffix.lower() in parquet.SUFFIXES:
        try:
            found = parquet.names(path)
            read = [name for name in _columns(path, 0, found, words, tags) if name is not None]
            several: Iterator[Any] = parquet.rows(path, read)
            for line, row in several:
                yield _row(path, line, row, words, tags)
        except parquet.ParquetError as error:
            raise TextError(str(error)) from None
        except OSError as error:
            raise TextError(f"cannot read {path}: {error.strerror}") from None
        return
    for line, row in rows(path, encoding):
        yield _row(path, line, row, words, tags)


def _columns(
    path: Path, line: int, found: Sequence[str], words: str | None, tags: str | None
) -> tuple[str, str | None]:
    """The columns of words, or of a text, and of tags."""

    def first(names: Sequence[str]) -> str | None:
        spelled = {name.strip().casefold(): name for name in reversed(found)}
        return next((spelled[n.casefold()] for n in names if n.casefold() in spelled), None)

    of_words = first([words] if words else [*WORD_COLUMNS, TEXT_COLUMN])
    if of_words is None:
        wanted = repr(words) if words else f"{', '.join(WORD_COLUMNS)} or {TEXT_COLUMN}"
        raise TextError(
            f"{place(path, line)}: it has no {wanted}, but {', '.join(found)[:200] or 'nothing'}: "
            "name the column of the words with --text-column"
        )
    of_tags = first([tags] if tags else TAG_COLUMNS)
    if tags and of_tags is None:
        raise TextError(
            f"{place(path, line)}: it has no {tags!r}, but {', '.join(found)[:200]}: name the "
            "column of the tags with --label-column"
        )
    return of_words, of_tags


def _row(
    path: Path, line: int, row: dict[str, object], words: str | None, tags: str | None
) -> tuple[int, str | tuple[str, ...], Any]:
    of_words, of_tags = _columns(path, line, list(row), words, tags)
    value = row[of_words]
    said = None if of_tags is None else row[of_tags]
    where = f"{place(path, line)}: {of_words!r}"
    if of_words.strip().casefold() == TEXT_COLUMN and isinstance(value, str) and said is None:
        if not value.strip():
            raise TextError(f"{where} is empty")
        return line, value, None
    found = _list(value)
    if found is None or not all(isinstance(one, str) and one.strip() for one in found):
        raise TextError(f"{where} is {shown(value)}, not a list of words")
    if not found:
        raise TextError(f"{where} is empty")
    return line, tuple(map(str, found)), said


def _list(value: object) -> list[Any] | None:
    """A list, or a text that has one; None for anything else."""
    if isinstance(value, str):
        if not value.lstrip().startswith("["):
            return value.split()
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, list) else None


def _tags(said: object, count: int, names: Sequence[str]) -> tuple[int | None, ...]:
    """The class of each word. Raises ValueError for what is no list of as many tags."""
    if said is None or said == "":
        return (None,) * count
    found = _list(said)
    if found is None:
        raise ValueError(f"the tags are {shown(said)}, not a list")
    if len(found) != count:
        raise ValueError(f"{count} words have {len(found)} tags: each needs one")
    tags: list[int | None] = []
    for number, value in enumerate(found, 1):
        try:
            ignored = value is None or str(value).strip() == str(IGNORED)
            tags.append(None if ignored else label_index(value, names))
        except ValueError as error:
            raise ValueError(f"the tag of word {number} {error}") from None
    return tuple(tags)

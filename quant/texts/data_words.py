"""Texts word by word, each with its tag: what a model with a class for every token is held to.

Rows (quant.texts.rows, .parquet) have a list of words and a list of tags, names or indices, or both
as texts, separated by spaces or in JSON. A .conll file has a word a line, its tag in the last
column and an empty line behind each text; columns are separated by spaces or tabs, as many in each
line. A tag that is not there, empty or -100 says nothing of its word. A row with a text instead of
words has no tags. Whether tags are names or indices quant.texts.data_label decides for a whole
file.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from quant.texts import parquet
from quant.texts.data_label import INDICES, Labels, shown
from quant.texts.rows import TextError, called, column_of, decoded, place, reading, rows

WORD_COLUMNS = ("tokens", "words")
TAG_COLUMNS = ("ner_tags", "tags", "labels", "label", "pos_tags")
TEXT_COLUMN = "text"
CONLL = (".conll", ".bio", ".iob2")
IGNORED = -100
"""What transformers writes where a word counts for nothing."""

_DOCUMENT = "-DOCSTART-"
_BETWEEN = re.compile(r"[ \t]+")

Found = tuple[int, str | tuple[str, ...], Any]  # line, a text or words, what is said of their tags


@dataclass(frozen=True)
class Tagged:
    """A text; of one that the file has word by word the words, and the class of each or None.

    line: its own, or its row; of an empty text nothing else is there.
    """

    text: str
    words: tuple[str, ...] | None = None
    tags: tuple[int | None, ...] = ()
    line: int = 0


def stream(
    path: Path,
    names: Sequence[str],
    words: str | None,
    tags: str | None,
    encoding: str,
    are: str | None,
) -> Iterator[Tagged]:
    """The texts of a file, one at a time.

    names
        Of the model's classes; empty: tags are not looked at.
    words, tags
        Their columns; None: the first of WORD_COLUMNS and of TAG_COLUMNS that is there. "": any of
        these, where tags are not looked at.
    are
        What the tags are, as quant.texts.data_label has it; None to find out.

    Raises TextError naming the file and line (of a Parquet file the row) for what cannot be read.
    """
    if not names:
        tags = tags or ""
    labels, read = _opened(path, names, words, tags, encoding, are)
    if labels.doubtful:
        labels.settle((row[0], _tags(path, *row)) for row in read(False) if row[1])
    for line, given, said in read(True):
        if not given:
            yield Tagged("", line=line)
            continue
        found: list[int | None] = []
        for number, tag in enumerate(_tags(path, line, given, said) if names else (), 1):
            try:
                found.append(labels.index(tag))
            except ValueError as error:
                raise TextError(f"{place(path, line)}: the tag of word {number} {error}") from None
        if isinstance(given, str):
            yield Tagged(given, line=line)
        else:
            classes = tuple(found) if names else (None,) * len(given)
            yield Tagged(" ".join(given), given, classes, line)


def _opened(
    path: Path,
    names: Sequence[str],
    words: str | None,
    tags: str | None,
    encoding: str,
    are: str | None,
) -> tuple[Labels, Callable[[bool], Iterator[Found]]]:
    """What the tags of a file mean, and what reads it; True: columns that are not read are said."""
    suffix = path.suffix.lower()
    if suffix in CONLL:
        return Labels(path, names, are), lambda say: decoded(path, encoding, _conll)
    if suffix not in parquet.SUFFIXES:
        return Labels(path, names, are), partial(_of_rows, path, words, tags, encoding)
    with reading(path):
        classes = {} if are == INDICES or not names else parquet.classes(path)
        of_tags = _columns(path, 0, parquet.names(path), words, tags)[1]
    labels = Labels(path, names, are, classes.get(of_tags or ""))
    named = {} if labels.are == INDICES else classes
    return labels, partial(_of_parquet, path, words, tags, named)


def _conll(path: Path, lines: Iterator[str]) -> Iterator[tuple[int, tuple[str, ...], list[str]]]:
    """Line of the first word, words, tags."""
    words: list[str] = []
    tags: list[str] = []
    first = number = width = 0
    checked = False
    for number, line in enumerate(lines, 1):
        columns = _BETWEEN.split(line.strip()) if line.strip() else []
        if columns and columns[0] == _DOCUMENT:
            continue
        if columns:
            if len(columns) < 2:
                raise TextError(
                    f"{path}:{number}: {line.strip()[:40]!r} is one column: a word and "
                    "its tag are needed"
                )
            width = width or len(columns)
            if len(columns) != width:
                raise TextError(
                    f"{path}:{number}: {line.strip()[:40]!r} has {len(columns)} columns, the lines "
                    f"before it {width}: the tag is the last of as many in each line"
                )
            first = first if words else number
            words.append(columns[0])
            tags.append(columns[-1])
        elif words:
            if not checked:
                _refuse_numbers(path, first, words, width)
            checked = True
            yield first, tuple(words), tags
            words, tags = [], []
    if words:
        if not checked:
            _refuse_numbers(path, first, words, width)
        yield first, tuple(words), tags


def _refuse_numbers(path: Path, line: int, words: list[str], width: int) -> None:
    """Of the first text: some formats number the words, with the word in a later column."""
    counted = [[str(i) for i in range(first, first + len(words))] for first in (0, 1)]
    if width > 2 and len(words) > 1 and words in counted:
        raise TextError(
            f"{path}:{line}: the first column counts the words ({', '.join(words[:3])} ...): it "
            "must hold the words themselves, and the last one their tags"
        )


def _of_rows(
    path: Path, words: str | None, tags: str | None, encoding: str, say: bool
) -> Iterator[Found]:
    chosen: dict[tuple[str, ...], tuple[str, str | None]] = {}
    for line, row in rows(path, encoding):
        keys = tuple(row)
        if keys not in chosen:
            head = line if path.suffix.lower() == ".jsonl" else 1
            chosen[keys] = _columns(path, head, keys, words, tags, say and not chosen)
        yield _row(path, line, row, *chosen[keys])


def _of_parquet(
    path: Path,
    words: str | None,
    tags: str | None,
    named: Mapping[str, Sequence[str]],
    say: bool,
) -> Iterator[Found]:
    with reading(path):
        found = parquet.names(path)
        chosen = _columns(path, 0, found, words, tags, say)
        read = [name for name in chosen if name is not None]
        for line, row in parquet.rows(path, read, named):
            yield _row(path, line, row, *chosen)


def _columns(
    path: Path,
    line: int,
    found: Sequence[str],
    words: str | None,
    tags: str | None,
    say: bool = False,
) -> tuple[str, str | None]:
    """The columns of words, or of a text, and of tags; other tags are named on stderr if asked."""
    listed = ", ".join(map(called, found))[:200] or "nothing"
    of_words = column_of(path, line, found, [words] if words else [*WORD_COLUMNS, TEXT_COLUMN])
    if of_words is None:
        wanted = repr(words) if words else f"{', '.join(WORD_COLUMNS)} or {TEXT_COLUMN}"
        raise TextError(
            f"{place(path, line)}: it has no {wanted}, but {listed}: "
            "name the column of the words with --text-column"
        )
    if tags == "":
        either = (one for one in found if one.strip().casefold() in TAG_COLUMNS)
        return of_words, next(either, None)
    of_tags = column_of(path, line, found, [tags] if tags else TAG_COLUMNS)
    if tags and of_tags is None:
        raise TextError(
            f"{place(path, line)}: it has no {tags!r}, but {listed}: name the "
            "column of the tags with --label-column"
        )
    others = [name for name in found if name.strip().casefold() in TAG_COLUMNS and name != of_tags]
    if say and others and not tags:
        print(
            f"note: {path}: tags are read from {of_tags!r}, not from {', '.join(others)} "
            "(--label-column)",
            file=sys.stderr,
            flush=True,
        )
    return of_words, of_tags


def _row(
    path: Path, line: int, row: dict[str, object], of_words: str, of_tags: str | None
) -> Found:
    value = row[of_words]
    said = None if of_tags is None else row[of_tags]
    if value is None or (isinstance(value, str) and not value.strip()):
        return line, "", None
    if of_words.strip().casefold() == TEXT_COLUMN and isinstance(value, str) and said is None:
        return line, value, None
    found = _list(value)
    if found is None or not all(isinstance(one, str) and one.strip() for one in found):
        raise TextError(f"{place(path, line)}: {of_words!r} is {shown(value)}, not a list of words")
    return line, tuple(map(str, found)), said


def _list(value: object) -> list[Any] | None:
    """A list, or a text that has one; None for anything else."""
    if isinstance(value, str):
        if not value.lstrip().startswith("["):
            return value.split()
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, list) else None


def _tags(path: Path, line: int, given: str | Sequence[str], said: object) -> list[Any]:
    """What is said of each word, None for nothing. Raises TextError for no list of as many tags."""
    count = 0 if isinstance(given, str) else len(given)
    if said is None or said == "":
        return [None] * count
    found = _list(said)
    if found is None:
        raise TextError(f"{place(path, line)}: the tags are {shown(said)}, not a list")
    if len(found) != count:
        raise TextError(
            f"{place(path, line)}: {count} words have {len(found)} tags: each needs one"
        )
    return [None if str(value).strip() == str(IGNORED) else value for value in found]

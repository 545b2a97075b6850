"""Texts and labels of a user's file.

    .csv, .tsv      quoted by the rules of the csv module; a .csv is separated by commas, semicolons
                    or tabs, whichever its header has most of
    .jsonl, .json   an object per line; a list of objects
    .parquet, .pq   integers of a ClassLabel stand for the names in the file's metadata
    .txt            a text per line
    .conll, ...     a word per line, its tag last, an empty line behind each text

A file is UTF-8. A label is the name of a class, else its index, see `class_of`; a list is a list,
in a cell of a .csv written as JSON. An empty label leaves the text without one. Whatever cannot be
read is a TextError that names the file and the line in which the row begins.
"""

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from cli.errors import ToolError, UserError
from cli.extras import how

import numpy as np
from numpy.typing import NDArray

from quant.model.spec import (
    CLASSIFICATION,
    MULTI_LABEL,
    QUESTION_ANSWERING,
    REGRESSION,
    TOKEN_CLASSIFICATION,
)

TEXT_COLUMNS = ("text", "text_a", "text1", "sentence1", "sentence", "premise", "question")
PAIR_COLUMNS = ("pair", "text_pair", "text_b", "text2", "sentence2", "hypothesis", "context")
LABEL_COLUMNS = ("label",)
WORD_COLUMNS = ("tokens", "words", "text")
TAG_COLUMNS = ("ner_tags", "tags", "labels", "label", "pos_tags")
LARGEST_INDEX = 4095
PARQUET = (".parquet", ".pq")
CONLL = (".conll", ".bio", ".iob2")

NO_CLASS = (-1, -100)
"""What `datasets` writes for a text without a class, transformers for a word without one."""
_TRUTH = {"0": 0.0, "0.0": 0.0, "false": 0.0, "1": 1.0, "1.0": 1.0, "true": 1.0}
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)

Content: TypeAlias = str | Sequence[str] | NDArray[np.uint8]
"""A text or its words, an image's path or the image."""
Targets: TypeAlias = tuple[float, ...]


class TextError(UserError):
    """A text source that cannot be read; the message says where, why and what is allowed."""


@dataclass(frozen=True)
class Review:
    """A text, its class (an index, None without a label) and the second text of a pair.

    targets: a number per output of a model with several labels (1 or 0) or of a regression.
    words, tags: the words of a text that the file has word by word, and the class of each or None.
    image: pixels that are no file of their own. line: in the file, where that has lines.
    """

    text: str
    label: int | None
    pair: str | None = None
    targets: Targets | None = None
    words: tuple[str, ...] | None = None
    tags: tuple[int | None, ...] = ()
    image: NDArray[np.uint8] | None = None
    line: int | None = field(default=None, compare=False)

    @property
    def present(self) -> bool:
        """There is a text or an image, and the second text of a pair."""
        return self.image is not None or bool(self.text.strip() and self.pair != "")

    @property
    def content(self) -> Content:
        """The image or the words, where there are some, else the text."""
        if self.image is not None:
            return self.image
        return self.text if self.words is None else self.words


@dataclass(frozen=True)
class Layout:
    """The columns (or keys) of a file; None: the first usual name. A pair of "" is not read."""

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    texts: tuple[str, ...] = TEXT_COLUMNS


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Options that name the columns of a file of texts."""
    group = parser.add_argument_group("columns of a .csv, .tsv, .json, .jsonl or .parquet file")
    usual = {"text": TEXT_COLUMNS, "pair": PAIR_COLUMNS, "label": LABEL_COLUMNS}
    for name, columns in usual.items():
        shown = f"default: the first of {', '.join(columns)} that is there"
        group.add_argument(f"--{name}-column", metavar="NAME", help=shown)


def layout_of(options: argparse.Namespace) -> Layout:
    """The Layout that the options of `add_columns` name."""
    return Layout(options.text_column, options.pair_column, options.label_column)


def read_texts(
    path: str | Path,
    *,
    names: Sequence[str] | None = None,
    layout: Layout | None = None,
    task: str = CLASSIFICATION,
) -> list[Review]:
    """The texts of a file, with the labels that a model with outputs ``names`` has for ``task``.

    Without ``names`` every label must be an index; with () labels are not looked at. Rows without
    a text are left out. Notes on stderr count them and name the columns that are not read.
    """
    reviews = list(stream_texts(path, names=names, layout=layout, task=task))
    if not reviews:
        raise TextError(f"{path} holds no text")
    return reviews


def stream_texts(
    path: str | Path,
    *,
    names: Sequence[str] | None = None,
    layout: Layout | None = None,
    task: str = CLASSIFICATION,
    empty: bool = False,
) -> Iterator[Review]:
    """The texts of `read_texts` one at a time. empty: a row without a text is a Review of ""."""
    table = _Table(Path(path), layout or Layout(), names, task)
    missing: list[str] = []
    for review in table.rows(table.review):
        if not review.present:
            missing.append(table.place)
        if review.present or empty:
            yield review
    if missing:
        left = "kept as empty rows" if empty else "left out"
        many = f"{len(missing):,}, the first is {missing[0]}"
        _note(f"{path}: rows without a text are {left}: {many}")


def until_a_text(reviews: Iterator[Review], source: str) -> Iterator[Review]:
    """The empty rows before the first text, and that; TextError where there is none."""
    for review in reviews:
        yield review
        if review.present:
            return
    raise TextError(f"{source} holds no text")


def label_names(path: str | Path, *, layout: Layout | None = None) -> list[str]:
    """The classes of a file: the names in a Parquet file's ClassLabel, else its sorted labels.

    Labels that differ in case alone are one; numbers are sorted by value.
    """
    table = _Table(Path(path), layout or Layout(), None, CLASSIFICATION)
    found: dict[str, str] = {}
    for columns, row in table.rows(lambda *row: row):
        if columns.label in table.classes:
            return table.classes[columns.label]
        if not _blank(value := row.get(columns.label or "")):
            name = re.sub(r"^([0-9]+)\.0*$", r"\1", _word(value))
            found.setdefault(name.casefold(), name)
    if not found:
        raise TextError(f"{path} has no labels: name their column or key with --label-column")
    return sorted(found.values(), key=Decimal if all(map(_NUMBER.fullmatch, found)) else str)


@lru_cache(1 << 12)
def class_of(label: str, names: tuple[str, ...] | None) -> int:
    """The class that a label means: by its name, else by its index from 0.

    Case, surrounding space and the spelling of a number (5, 5.0, 05) do not count. Where a name is
    a number, numbers are names alone: with the names "1" to "5" a 3 is the class "3", and a 0 is
    refused. So is a number that is the index of one name and stands in another ("1 star").
    Without ``names`` a label is an index.
    """
    label = label.strip()
    number = Decimal(label) if _NUMBER.fullmatch(label) else None
    whole = number is not None and re.fullmatch(r"[0-9]+(\.0*)?", label)
    limit = LARGEST_INDEX + 1 if names is None else len(names)
    index = int(number) if number is not None and whole and number < limit else None
    if names is None:
        if index is None:
            raise UserError(f"{_shown(label)} is not an index from 0 to {LARGEST_INDEX}")
        return index
    numbers = [Decimal(name) if _NUMBER.fullmatch(name.strip()) else None for name in names]
    indexed = numbers == [None] * len(names)
    found = [i for i, name in enumerate(names) if name.strip() == label]
    found = found or [i for i, name in enumerate(names) if _plain(name) == _plain(label)]
    if not found and number is not None:
        found = [i for i, own in enumerate(numbers) if own == number]
        if indexed and index is not None:
            held = [re.findall("[0-9]+", name) for name in names]
            one = all(len(digits) == 1 for digits in held)
            found = [i for i, n in enumerate(held) if i == index or (one and int(*n) == index)]
    if not found:
        more = f" or an index from 0 to {len(names) - 1}" if indexed else ""
        raise UserError(f"{_shown(label)} is not one of {_listed(names)}{more}")
    if len(found) > 1:
        both = _listed([names[i] for i in found])
        raise UserError(f"{_shown(label)} could mean {both}: write a name as it is there")
    return found[0]


class _Columns(NamedTuple):
    """The columns that are read. outputs: one for each output of the model, in place of a label."""

    text: str
    pair: str | None = None
    label: str | None = None
    outputs: tuple[str, ...] = ()


_Row: TypeAlias = tuple[_Columns, Mapping[str, Any]]


class _Table:
    """The rows of one file. classes: the names of the integers in a column of a Parquet file."""

    def __init__(self, path: Path, layout: Layout, names: Sequence[str] | None, task: str) -> None:
        self.path, self.layout, self.task = path, layout, task
        self.names = None if names is None else tuple(names)
        self.kind, self.line = path.suffix.lower(), 0
        self.words = task == TOKEN_CLASSIFICATION
        self.labelled = self.names != () and task != QUESTION_ANSWERING
        self.classes: dict[str, list[str]] = {}
        self._known: dict[tuple[str, ...], _Columns] = {}

    @property
    def place(self) -> str:
        """Where the present row begins."""
        row = ": row " if self.kind in (*PARQUET, ".json") else ":"
        return f"{self.path}{row}{self.line}" if self.line else str(self.path)

    def rows(self, make: Callable[[_Columns, Mapping[str, Any]], Any]) -> Iterator[Any]:
        """The results of `make` for each row; a UserError gets the place."""
        readers = {".csv": self._csv, ".tsv": self._csv, ".json": self._json, ".jsonl": self._json}
        readers |= {".txt": self._txt} | dict.fromkeys(PARQUET, self._parquet)
        readers |= dict.fromkeys(CONLL, self._conll) if self.words else {}
        try:
            if self.path.is_dir() or self.kind not in readers:
                kind = "this is a folder" if self.path.is_dir() else "unknown kind of file"
                raise UserError(f"{kind}: give one of {', '.join(readers)}")
            for row in readers[self.kind]():
                yield make(*row)
        except UserError as error:
            raise TextError(f"{self.place}: {error}") from None
        except OSError as error:
            raise TextError(f"cannot read {self.path}: {error.strerror or error}") from None

    def _lines(self) -> Iterator[str]:
        position = 0
        with self.path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            for number, line in enumerate(file, 1):
                self.line = number
                if bad := re.search("[\0\udc80-\udcff]", line):
                    position += len(line[: bad.start()].encode())
                    byte = f"byte {position:,}, 0x{ord(bad[0]) % 256:02x}"
                    raise UserError(f"{byte}, is not text in UTF-8: save the file as UTF-8")
                position += len(line.encode())
                yield line.removeprefix("\ufeff") if number == 1 else line

    def _csv(self) -> Iterator[_Row]:
        csv.field_size_limit(1 << 24)
        lines = self._lines()
        first = next(lines, "")
        shown = re.sub(r'"[^"]*"', "", first)
        delimiter = "\t" if self.kind == ".tsv" else max(",;\t", key=shown.count)
        reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
        header: list[str] = []
        begin = 1
        try:
            for cells in reader:
                self.line = begin
                if not header:
                    header, columns = cells, self._columns(cells)
                elif len(cells) == len(header):
                    yield columns, dict(zip(header, cells))
                elif "".join(cells).strip():
                    raise UserError(
                        f"{len(cells)} cells under a header of {len(header)}: quote a text that "
                        f"holds {delimiter!r}, leave a cell without a value empty"
                    )
                begin = reader.line_num + 1
        except csv.Error as error:
            self.line = begin
            raise UserError(f"{error}: quotes enclose a whole cell, and double in it") from None

    def _json(self) -> Iterator[_Row]:
        rows: Any = (_json_value(line) for line in self._lines() if line.strip())
        if self.kind == ".json":
            text, self.line = "".join(self._lines()), 0
            rows = _json_value(text)
            if not isinstance(rows, list):
                raise UserError("not a list of JSON objects; a file with one per line is a .jsonl")
        for row in rows:
            self.line += self.kind == ".json"
            if not isinstance(row, dict):
                raise UserError(f"{_shown(row)} is not a JSON object")
            yield self._columns(list(row)), row

    def _txt(self) -> Iterator[_Row]:
        for line in filter(str.strip, self._lines()):
            yield _Columns("text"), {"text": line.strip()}

    def _conll(self) -> Iterator[_Row]:
        rows: list[list[str]] = []
        begin = width = 0
        for line in chain(self._lines(), [""]):
            cells = re.findall(r"[^ \t\r\n]+", line)
            if cells and cells[0] != "-DOCSTART-":
                width, begin = width or len(cells), begin if rows else self.line
                if len(cells) < 2 or len(cells) != width:
                    raise UserError(
                        f"{len(cells)} columns, not {max(width, 2)}: a line is a word, as many "
                        "others in each, and last its tag"
                    )
                rows.append(cells)
            elif rows and not cells:
                self.line = begin
                words, *_, tags = zip(*rows)
                yield _Columns("words", label="tags"), {"words": [*words], "tags": [*tags]}
                rows = []

    def _parquet(self) -> Iterator[_Row]:
        try:
            import pyarrow
            from pyarrow import parquet
        except ModuleNotFoundError:
            needed = f"reading Parquet needs the package pyarrow: {how('pyarrow')}"
            raise ToolError(f"{self.path}: {needed}") from None
        with self.path.open("rb") as source:
            try:
                file = parquet.ParquetFile(
                    source, pre_buffer=False, buffer_size=1 << 20, page_checksum_verification=True
                )
                columns = self._columns(file.schema_arrow.names)
                self._find_classes(file.schema_arrow.metadata or {}, columns)
                wanted = (columns.text, columns.pair, columns.label, *columns.outputs)
                read = {name for name in wanted if name is not None}
                for batch in file.iter_batches(256, columns=[*read], use_threads=False):
                    for row in batch.to_pylist():
                        self.line += 1
                        yield columns, {name: self._named(name, row[name]) for name in read}
            except UserError:
                raise
            except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
                said = " ".join(str(error).split())[:200]
                raise UserError(f"what follows cannot be read as Parquet: {said}") from None

    def _columns(self, keys: Sequence[str]) -> _Columns:
        """The columns among these; the objects of a .jsonl may have other keys each."""
        if tuple(keys) in self._known:
            return self._known[tuple(keys)]
        layout, names = self.layout, self.names or ()

        def find(part: str, asked: str | None, usual: Sequence[str]) -> str | None:
            for name in [asked] if asked else usual:
                exact = [key for key in keys if key.strip() == name.strip()]
                same = exact or [key for key in keys if _plain(key) == _plain(name)]
                if len(same) > 1:
                    raise UserError(f"{len(same)} columns are called {name!r}: rename one")
                if same:
                    return same[0]
            if part == "text" or (asked and not self._known):
                missing = f"no column {asked or usual[0]!r} among {_listed(keys)}"
                raise UserError(f"{missing}: name one with --{part}-column")
            return None

        text = find("text", layout.text, WORD_COLUMNS if self.words else layout.texts)
        paired = layout.pair != "" and not self.words
        pair = find("pair", layout.pair, PAIR_COLUMNS) if paired else None
        labels = TAG_COLUMNS if self.words else LABEL_COLUMNS
        label = find("label", layout.label, labels) if self.labelled else None
        several = self.labelled and label is None and self.task in (MULTI_LABEL, REGRESSION)
        outputs = [find("", None, [name]) for name in names] if several else []
        each = tuple(dict.fromkeys(filter(None, outputs)))
        if each and len(each) < len(names):
            raise UserError(f"the outputs {_listed(names)} need a column each, or a list")
        if any((one.pair is None) != (pair is None) for one in self._known.values()):
            raise UserError("all rows of a file have a second text, or none")
        unread = [k for k in keys if k not in (text, pair, label, *each, layout.label, *labels)]
        if unread and not self._known:
            _note(f"{self.path}: not read: {_listed(unread)}")
        self._known[tuple(keys)] = _Columns(text or "", pair, label, each)
        return self._known[tuple(keys)]

    def _find_classes(self, metadata: Any, columns: _Columns) -> None:
        """Finds the names of the file's classes, and refuses those that are not the model's."""
        try:
            content = json.loads(metadata.get(b"huggingface", b"{}"))
            features = (content.get("info") or {}).get("features") or {}
            for column in filter(None, (columns.label, *columns.outputs)):
                own = _class_names(features.get(column))
                if own and own != [str(i) for i in range(len(own))]:
                    self.classes[column] = own
        except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
            raise UserError(
                "the key huggingface of its metadata holds no features of `datasets`: write the "
                "file again, with or without them"
            ) from None
        own, names = self.classes.get(columns.label or "") or [], self.names or ()
        if own and names == tuple(f"LABEL_{i}" for i in range(len(own))) and not {*own} & {*names}:
            _note(f"{self.path}: the model's classes have no names: the order is the file's")
            self.classes.pop(columns.label or "", None)
        elif own and names and self.task != REGRESSION:
            same = {*map(_plain, own)} <= {*map(_plain, names)}
            if not same or len({class_of(name, names) for name in own}) < len(own):
                both = f"its classes are {_listed(own)}, the model's {_listed(names)}"
                raise UserError(f"{both}: rename those of one")

    def _named(self, column: str, value: Any) -> Any:
        """The names of the file's classes in place of their integers, None for no class."""
        own = self.classes.get(column)
        if own is None or not self.names:
            return value
        if isinstance(value, list):
            return [self._named(column, one) for one in value]
        if value is None or isinstance(value, str) or value in NO_CLASS:
            return value if isinstance(value, str) else None
        if value not in range(len(own)):
            raise UserError(f"{column!r} is {_shown(value)}, not a class from 0 to {len(own) - 1}")
        return own[int(value)]

    def review(self, columns: _Columns, row: Mapping[str, Any]) -> Review:
        names, value = self.names or (), row.get(columns.label or "")
        if self.words:
            listed = _plain(columns.text) != "text"
            return self._tagged(row.get(columns.text), value if self.labelled else None, listed)
        text = _text(row.get(columns.text), columns.text)
        pair = _text(row.get(columns.pair), columns.pair) if columns.pair else None
        review = Review(text, None, pair, line=self.line)
        if columns.outputs and not all(_blank(row[name]) for name in columns.outputs):
            value = [row[name] for name in columns.outputs]
        if _blank(value):
            return review
        if self.task == REGRESSION:
            return replace(review, targets=_numbers(value, names))
        if self.task == MULTI_LABEL:
            return replace(review, targets=_labels(value, names, flags=bool(columns.outputs)))
        return replace(review, label=class_of(str(value), self.names))

    def _tagged(self, value: Any, given: Any, listed: bool) -> Review:
        """A text with words and the class of each; null, "" and -100 are none."""
        listed = listed and str(value).lstrip().startswith("[")
        if isinstance(value, str) and _blank(given) and not listed:
            return Review(value, None, line=self.line)
        words = [] if _blank(value) else _listing(value)
        if words is None or not all(isinstance(word, str) and word.strip() for word in words):
            raise UserError(f"{_shown(value)} is not a list of words")
        if not words:
            return Review("", None, line=self.line)
        tags = [None] * len(words) if _blank(given) else _listing(given)
        if tags is None or len(tags) != len(words):
            raise UserError(f"{_shown(given)} is not a list of {len(words)} tags, one per word")
        none = [_blank(tag) or str(tag).strip() == str(NO_CLASS[1]) for tag in tags]
        classes = [None if no else class_of(str(tag), self.names) for no, tag in zip(none, tags)]
        return Review(
            " ".join(words), None, words=tuple(words), tags=tuple(classes), line=self.line
        )


def _labels(value: Any, names: tuple[str, ...], flags: bool) -> Targets:
    """A 1 for each label that holds, of a label, a list of labels, or a 0 or 1 for each of all.

    flags: it is the latter for sure; else a list of integers, which could be indices, is refused.
    """
    items = _listing(value)
    words = list(map(_word, [value] if items is None else items))
    flags = flags or any(isinstance(item, bool | float) for item in items or [value])
    truths = [_TRUTH.get(word.lower()) for word in words if flags or word in ("0", "1")]
    each = len(truths) == len(words) == len(names) and None not in truths
    once = len({*words}) == len(words)
    if flags and not each:
        raise UserError(f"{_shown(value)} is not a 0 or 1 for each of {_listed(names)}")
    if each and once and not flags:
        raise UserError(
            f"{_shown(value)} could be indices or a 0 or 1 for each label: write names, or 1.0 and "
            "0.0 for all labels"
        )
    if each:
        return tuple(float(truth or 0) for truth in truths)
    found = [class_of(word, names) for word in words]
    if len({*found}) < len(found):
        raise UserError(f"{_shown(value)} has a label twice")
    return tuple(float(i in found) for i in range(len(names)))


def _numbers(value: Any, names: Sequence[str]) -> Targets:
    items = _listing(value)
    words = list(map(_word, [value] if items is None else items))
    if len(words) != len(names):
        raise UserError(f"{_shown(value)}: the model gives {len(names)} ({_listed(names)})")
    for word in words:
        if not _DECIMAL.fullmatch(word) or not isfinite(float(word)):
            raise UserError(f"{_shown(word)} is not a finite number")
    return tuple(map(float, words))


def _listing(value: Any) -> list[Any] | None:
    """A list, or the one that a cell holds as JSON; None for anything else."""
    if isinstance(value, str) and value.strip().startswith("["):
        value = _json_value(value)
    return value if isinstance(value, list) else None


def _json_value(text: str) -> Any:
    """JSON without a key twice, NaN, infinity, or half of a surrogate pair."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError(f"a key stands twice in {_listed([key for key, _ in pairs])}")
        return dict(pairs)

    try:
        found = json.loads(text, object_pairs_hook=once)
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise UserError(f"not JSON: {' '.join(str(error).split())[:200]}") from None
    return found


def _class_names(feature: Any) -> list[str] | None:
    """The names of a ClassLabel, or of one in lists, by the metadata of `datasets`."""
    if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
        names = feature["names"]
        if not isinstance(names, list) or len({*names}) < len(names):
            raise ValueError
        return list(map(str, names))
    inner = feature.get("feature") if isinstance(feature, dict) else feature
    inner = inner[0] if isinstance(inner, list) and inner else inner
    return _class_names(inner) if isinstance(inner, dict) else None


def _text(value: Any, column: str) -> str:
    if not isinstance(value, str | None):
        raise UserError(f"{column!r} is {_shown(value)}, not a string")
    return value if value and value.strip() else ""


def _blank(value: Any) -> bool:
    return not _word(value)


def _word(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _plain(name: str) -> str:
    return name.strip().casefold()


def _shown(value: object) -> str:
    return repr(value)[:60]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(" ".join(name.split()) or "(no name)" for name in names)[:300] or "nothing"


def _note(message: str) -> None:
    print(f"note: {message}", file=sys.stderr, flush=True)

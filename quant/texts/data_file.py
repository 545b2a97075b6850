"""Texts and labels of a user's file.

    .csv, .tsv      quoted by the rules of the csv module; a .csv is separated by commas, semicolons
                    or tabs, whichever its header has most of
    .jsonl          an object per line
    .parquet, .pq   integers of a ClassLabel stand for the names in the file's metadata
    .txt            a text per line
    .conll, ...     a word per line, its tag last, an empty line behind each text

A file is UTF-8, and a cell of a .csv holds a list as JSON. A TextError names the file and the line
or row that cannot be read.
"""

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from cli.errors import UserError

import numpy as np
from numpy.typing import NDArray

from quant.model.spec import CLASSIFICATION, LABELLED, REGRESSION, TOKEN_CLASSIFICATION

TEXT_COLUMNS = ("text", "text_a", "text1", "sentence1", "sentence", "premise", "question")
PAIR_COLUMNS = ("pair", "text_pair", "text_b", "text2", "sentence2", "hypothesis", "context")
LABEL_COLUMNS = ("label",)
WORD_COLUMNS = ("tokens", "words", "text")
TAG_COLUMNS = ("ner_tags", "tags", "labels", "label", "pos_tags")
PARQUET = (".parquet", ".pq")
TABLES = (".csv", ".tsv", ".jsonl", ".txt", *PARQUET)
CONLL = (".conll", ".bio", ".iob2")

_FLAGS = {"0": 0.0, "0.0": 0.0, "false": 0.0, "1": 1.0, "1.0": 1.0, "true": 1.0}
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?")

Content: TypeAlias = str | Sequence[str] | NDArray[np.uint8]
"""A text or its words, an image's path or the image."""


class TextError(UserError):
    """A text source that cannot be read; the message says where, why and what is allowed."""


@dataclass(frozen=True)
class Review:
    """A text, the index of its class, and the second text of a pair.

    targets: a number per output of a model with several labels (1 or 0) or of a regression.
    words, tags: of a text that the file has word by word; a tag is the index of a class or None.
    image: pixels that are no file of their own. line: the line or row of the file.
    """

    text: str
    label: int | None
    pair: str | None = None
    targets: tuple[float, ...] | None = None
    words: tuple[str, ...] | None = None
    tags: tuple[int | None, ...] = ()
    image: NDArray[np.uint8] | None = None

    @property
    def present(self) -> bool:
        """There is a text or an image, and the second text of a pair."""
        paired = self.pair is None or self.pair.strip()
        return self.image is not None or bool(self.text.strip() and paired)

    @property
    def content(self) -> Content:
        """The image or the words, where there are some, else the text."""
        words = self.text if self.words is None else self.words
        return words if self.image is None else self.image


@dataclass(frozen=True)
class Layout:
    """The columns (or keys) of a file; None: the first usual name. A pair of "" is not read."""

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    texts: tuple[str, ...] = TEXT_COLUMNS


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Options that name the columns of a file of texts."""
    group = parser.add_argument_group("columns of a .csv, .tsv, .jsonl or .parquet file")
    for name, usual in ("text", TEXT_COLUMNS), ("pair", PAIR_COLUMNS), ("label", LABEL_COLUMNS):
        shown = f"default: the first of {', '.join(usual)} that is there"
        group.add_argument(f"--{name}-column", metavar="NAME", help=shown)


def layout_of(options: argparse.Namespace) -> Layout:
    """The Layout that the options of `add_columns` name."""
    return Layout(options.text_column, options.pair_column, options.label_column)


def stream_texts(
    path: Path, names: tuple[str, ...], layout: Layout | None, task: str, empty: bool
) -> Iterator[Review]:
    """The texts of a file, with the labels that a model with outputs ``names`` has for ``task``.

    Without ``names`` labels are not looked at. A row without a text is left out, and a note counts
    those; with ``empty`` it is a Review that is not `present`.
    """
    table, missing = _Table(path, names, layout, task), 0
    for review in table.rows(table.review):
        if review.present or empty:
            yield review
        missing += not review.present
    if missing:
        note = f"note: {path}: {missing:,} rows without a text are"
        print(note, "empty" if empty else "left out", file=sys.stderr, flush=True)


def label_names(path: str | Path, *, layout: Layout | None = None) -> list[str]:
    """The classes of a file: the names in a Parquet file's ClassLabel, else its sorted labels.

    Labels that differ in case alone are one; numbers are sorted by value. Classes are those that
    are there: 0 and 2 are two classes with these names, of which no other file may have a 1.
    """
    table, found = _Table(Path(path), None, layout, CLASSIFICATION), dict[str, str]()
    for value in table.rows(lambda text, pair, label: label):
        if table.classes:
            return table.classes
        if plain := _plain(value):
            found.setdefault(plain, plain if plain.isdecimal() else _word(value))
    if not found:
        raise TextError(f"{path} has no labels: name their column or key with --label-column")
    numbers = all(map(str.isdecimal, found))
    return sorted(found.values(), key=lambda name: (len(name) if numbers else 0, name))


@lru_cache(1 << 12)
def class_of(label: str, names: tuple[str, ...]) -> int:
    """The class that a label means: by its name, else by its index from 0.

    Case, surrounding space and the spelling of a number (5, 5.0, 05) do not count. A number that
    could be meant as a name is no index: where a name is a number, or where all names hold digits
    ("1 star") that are not their indices ("LABEL_0").
    """
    places, held = range(len(names)), [re.findall("[0-9]+", name) for name in names]
    indexed = not all(held) or held == [[str(i)] for i in places]
    indexed = indexed and not any(_plain(name).isdecimal() for name in names)
    found = [i for i in places if _word(names[i]) == _word(label)]
    found = found or [i for i in places if _plain(names[i]) == _plain(label)]
    found = found or [i for i in places if indexed and str(i) == _plain(label)]
    if len(found) > 1:
        both = _listed([names[i] for i in found])
        raise UserError(f"{_shown(label)} could mean {both}: write a name as it is there")
    if not found:
        more = f" or an index from 0 to {len(names) - 1}" if indexed else ""
        raise UserError(f"{_shown(label)} is not one of {_listed(names)}{more}")
    return found[0]


_Columns: TypeAlias = tuple[str, str | None, str | None]
"""Of the text, the second text and the label."""
_Rows: TypeAlias = Iterator[dict[str, Any]]


class _Table:
    """The rows of one file. names: None for labels of any name. classes: of its ClassLabel."""

    def __init__(
        self, path: Path, names: tuple[str, ...] | None, layout: Layout | None, task: str
    ) -> None:
        self.path, self.kind, self.line = path, path.suffix.lower(), 0
        self.names, self.layout, self.task = names or (), layout or Layout(), task
        self.words, self.labelled = task == TOKEN_CLASSIFICATION, names != () and task in LABELLED
        self.classes, self.known = list[str](), dict[tuple[str, ...], _Columns]()

    def rows(self, make: Callable[..., Any]) -> Iterator[Any]:
        """What `make` gives for the text, second text and label of each row."""
        readers = {".csv": self._csv, ".tsv": self._csv, ".jsonl": self._jsonl}
        readers[".txt"] = lambda: ({"text": x.strip()} for x in self._lines() if x.strip())
        readers |= dict.fromkeys(PARQUET, self._parquet)
        readers |= dict.fromkeys(CONLL, self._conll) if self.words else {}
        try:
            if self.path.is_dir() or self.kind not in readers:
                raise UserError(f"not a file of {', '.join(readers)}")
            for row in readers[self.kind]():
                names = self._columns(tuple(row))
                text, pair, label = (None if name is None else row[name] for name in names)
                for name, value in () if self.words else zip(names, (text, pair)):
                    if not isinstance(value, str | None):
                        raise UserError(f"{name!r} is {_shown(value)}, not a string")
                yield make(text, names[1] and (pair or ""), label)
        except UserError as error:
            kind = ": row " if self.kind in PARQUET else ":"
            place = f"{kind}{self.line}" if self.line else ""
            raise TextError(f"{self.path}{place}: {error}") from None

    def _lines(self) -> Iterator[str]:
        with self.path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            for self.line, line in enumerate(file, 1):
                if bad := re.search("[\0\udc80-\udcff]", line):
                    byte = f"the byte 0x{ord(bad[0]) % 256:02x}"
                    raise UserError(f"{byte} is not text in UTF-8: save the file as UTF-8")
                yield line

    def _csv(self) -> _Rows:
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
                self.line, begin = begin, reader.line_num + 1
                if not header:
                    header, _ = cells, self._columns(tuple(cells))
                elif len(cells) == len(header):
                    yield dict(zip(header, cells))
                elif "".join(cells).strip():
                    wrong = f"{len(cells)} cells under a header of {len(header)}"
                    raise UserError(f"{wrong}: quote a text that holds {delimiter!r}")
        except csv.Error as error:
            self.line = begin
            raise UserError(f"{error}: quotes enclose a whole cell, and double in it") from None

    def _jsonl(self) -> _Rows:
        for line in filter(str.strip, self._lines()):
            if not isinstance(row := _json_value(line), dict):
                raise UserError(f"{_shown(row)} is not a JSON object")
            yield row

    def _conll(self) -> _Rows:
        rows: list[list[str]] = []
        begin = width = 0
        for line in chain(self._lines(), [""]):
            cells = re.findall(r"[^ \t\r\n]+", line)
            if cells and cells[0] != "-DOCSTART-":
                begin, width = begin if rows else self.line, width or max(len(cells), 2)
                rows.append(cells)
                if len(cells) != width:
                    wrong = f"{len(cells)} columns, not {width}"
                    raise UserError(f"{wrong}: a line is a word, others, and last its tag")
            elif rows and not cells:
                self.line = begin
                words, *_, tags = zip(*rows)
                yield {"words": [*words], "tags": [*tags]}
                rows = []

    def _parquet(self) -> _Rows:
        import pyarrow
        from pyarrow import parquet

        with self.path.open("rb") as source:
            try:
                file = parquet.ParquetFile(
                    source, pre_buffer=False, buffer_size=1 << 20, page_checksum_verification=True
                )
                columns = self._columns(tuple(file.schema_arrow.names))
                self._find_classes(file.schema_arrow.metadata or {}, columns[-1])
                read = list(filter(None, columns))
                batches = file.iter_batches(256, columns=read, use_threads=False)
                rows = (row for batch in batches for row in batch.to_pylist())
                for self.line, row in enumerate(rows, 1):
                    yield row
            except UserError:
                raise
            except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
                said = " ".join(str(error).split())[:200]
                raise UserError(f"what follows cannot be read as Parquet: {said}") from None

    def _find_classes(self, metadata: Any, column: str | None) -> None:
        """Finds the names of a ClassLabel, but for a model whose names are LABEL_0, ... alone."""
        about = metadata.get(b"huggingface", b'{"info": {"features": {}}}')
        try:
            found = json.loads(about)["info"]["features"].get(column, {})
            while not isinstance(found, dict) or "feature" in found:  # a list of classes
                found = found["feature"] if isinstance(found, dict) else found[0]
            own = found.get("names", [])
            if not isinstance(own, list) or len({*map(str.strip, own)}) < len(own):
                raise ValueError
        except (ValueError, AttributeError, TypeError, LookupError, RecursionError):
            raise UserError("its metadata huggingface is damaged: write it without") from None
        known = {*map(_plain, own)} <= {*map(_plain, self.names)}
        generic = self.names == tuple(f"LABEL_{i}" for i in range(len(own)))
        self.classes = own if known or not generic else []

    def _columns(self, keys: tuple[str, ...]) -> _Columns:
        """The columns among these; the objects of a .jsonl may have other keys each."""
        if keys in self.known:
            return self.known[keys]

        def find(part: str, asked: str | None, usual: Sequence[str]) -> str | None:
            for name in [asked] if asked else usual:
                same = [key for key in keys if key.strip().casefold() == name.strip().casefold()]
                if len(same) > 1:
                    raise UserError(f"{len(same)} columns are called {name!r}: rename one")
                if same:
                    return same[0]
            if part == "text" or (asked and not self.known):
                missing = f"no column {asked or usual[0]!r} among {_listed(keys)}"
                raise UserError(f"{missing}: name one with --{part}-column")
            return None

        asked, paired = self.layout, not self.words and self.layout.pair != ""
        text = find("text", asked.text, WORD_COLUMNS if self.words else asked.texts) or ""
        pair = find("pair", asked.pair, PAIR_COLUMNS) if paired else None
        labels = TAG_COLUMNS if self.words else LABEL_COLUMNS
        label = find("label", asked.label, labels) if self.labelled else None
        self.known[keys] = text, pair, label
        if len({other is None for _, other, _ in self.known.values()}) > 1:
            raise UserError("all rows of a file have a second text, or none")
        return text, pair, label

    def review(self, text: Any, pair: str | None, value: Any) -> Review:
        """The text of a row, and its label where there is one."""
        value = _named(value, self.classes)
        if self.words:
            return self._tagged(text, value)
        if not _word(value):
            return Review(text or "", None, pair)
        if self.task == CLASSIFICATION:
            return Review(text or "", class_of(_word(value), self.names), pair)
        return Review(text or "", None, pair, self._targets(value))

    def _tagged(self, value: Any, given: Any) -> Review:
        """A text with words and the class of each; null, "" and -100 are none."""
        words = _listing(value) if _word(value) else []
        if isinstance(value, str) and words is None and not _word(given):
            return Review(value, None)
        if words is None or not all(isinstance(word, str) and word.strip() for word in words):
            raise UserError(f"{_shown(value)} is not a list of words")
        tags = _listing(given) if _word(given) else [None] * len(words)
        if tags is None or len(tags) != len(words):
            raise UserError(f"{_shown(given)} is not a list of {len(words)} tags, one per word")
        named = [_word(tag) for tag in tags]
        classes = tuple(class_of(n, self.names) if n not in ("", "-100") else None for n in named)
        return Review(" ".join(words), None, words=tuple(words), tags=classes)

    def _targets(self, value: Any) -> tuple[float, ...]:
        """Numbers, or a 1 for each label that holds: by names or indices, or a 0 or 1 for each.

        Integers could be indices where there are one or two labels, and are refused there.
        """
        items, names = _listing(value), self.names
        items = [value] if items is None else items
        words = [_word(item).lower() for item in items]
        if self.task == REGRESSION:
            numbers = all(map(_DECIMAL.fullmatch, words)) and len(words) == len(names)
            if not numbers or not np.isfinite([*map(float, words)]).all():
                raise UserError(f"{_shown(value)} is not a finite number for {_listed(names)}")
            return tuple(map(float, words))
        sure = any(isinstance(item, bool | float) for item in items)
        each = len(words) == len(names) and {*words} <= {*_FLAGS}
        if sure != each and (sure or len(names) < 3):
            wrong = f"{_shown(value)} could be indices or a 0 or 1 for each label: write the names"
            raise UserError(f"{wrong}, or 1.0 or 0.0 for each of {_listed(names)}")
        if each:
            return tuple(_FLAGS[word] for word in words)
        found = [class_of(_word(item), names) for item in items]
        if len({*found}) < len(found):
            raise UserError(f"{_shown(value)} has a label twice")
        return tuple(float(i in found) for i in range(len(names)))


def _listing(value: Any) -> list[Any] | None:
    """A list, or the one that a cell holds as JSON; None for anything else."""
    word = _word(value) if isinstance(value, str) else ""
    value = _json_value(word) if word[:1] + word[-1:] == "[]" else value
    return value if isinstance(value, list) else None


def _json_value(text: str) -> Any:
    """JSON without NaN, infinity, or half of a surrogate pair."""
    try:
        found = json.loads(text)
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise UserError(f"not JSON: {' '.join(str(error).split())[:200]}") from None
    return found


def _named(value: Any, own: Sequence[str]) -> Any:
    """The names of a ClassLabel in place of its integers, None for -1 and -100, no class."""
    if isinstance(value, list):
        return [_named(one, own) for one in value]
    if not own or value is None or isinstance(value, str):
        return value
    if value not in (-100, *range(-1, len(own))):
        raise UserError(f"{_shown(value)} is not a class from 0 to {len(own) - 1}")
    return own[int(value)] if value >= 0 else None


def _word(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _plain(value: Any) -> str:
    """A label in lower case, or as the integer that it is: 5 for 5.0 and 05."""
    return re.sub(r"^([+-]?)0*([0-9]+?)(\.0*)?$", r"\1\2", _word(value).casefold())


def _shown(value: object) -> str:
    return repr(value)[:60]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(" ".join(name.split()) or "(no name)" for name in names)[:300] or "nothing"

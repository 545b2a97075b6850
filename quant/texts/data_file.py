"""Texts of the user: a table (.csv, .tsv, .parquet), an object or a text a line (.jsonl, .txt).

For a model with a class for every token a file has the words of a text and the tag of each
(quant.texts.data_words).
"""

import argparse
import codecs
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from quant.model.spec import (
    CLASSIFICATION,
    MULTI_LABEL,
    REGRESSION,
    TOKEN_CLASSIFICATION,
    same_names,
)
from quant.texts import data_words, parquet, targets
from quant.texts.data_label import (
    INDEX,
    INDICES,
    NAMES,
    OPTION,
    READINGS,
    Labels,
    shown,
    word,
)
from quant.texts.rows import TextError, called, column_of, place, reading, rows
from quant.texts.targets import Targets

TEXT_COLUMNS = ("text", "text_a", "text1", "sentence1", "sentence", "premise", "question")
PAIR_COLUMNS = ("pair", "text_pair", "text_b", "text2", "sentence2", "hypothesis", "context")


Content: TypeAlias = str | Sequence[str] | NDArray[np.uint8]
"""What becomes tokens: a text or its words, an image's path or the image."""


@dataclass(frozen=True)
class Review:
    """A text, its class (an index from 0, None without a label) and the second text of a pair.

    targets: in place of a class, what the file says of each output of a model that gives several
    labels at once or numbers (quant.texts.targets). words: of a text that the file has word by
    word; tags: the class of each, None for none (quant.texts.data_words). image: the pixels, where
    they are no file of their own; of a model of images the text is the path of a file, or says
    which one it is. line: of the file that it was read from, where that has lines.
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
        """There is a text, or an image, and of a pair the second text too."""
        return self.image is not None or bool(self.text.strip() and self.pair != "")

    @property
    def content(self) -> Content:
        """The image, or the words, where there are some, else the text."""
        if self.image is not None:
            return self.image
        return self.text if self.words is None else self.words


@dataclass(frozen=True)
class Layout:
    """Which columns (or keys) of a file hold what, and how its bytes become text.

    text, pair
        None: the first of TEXT_COLUMNS and of PAIR_COLUMNS that the file has; a file without such
        a pair column holds single texts. Case and surrounding space do not count. A pair of "" is
        none that is read.
    encoding
        Any text encoding of Python's; UTF-8 may begin with a byte order mark. Not of a Parquet
        file, which says itself what its bytes are.
    label
        "": none is read.
    labels_are
        "names", "indices", or None to find out (quant.texts.data_label).
    texts
        The columns that are looked for where ``text`` is None.
    stored
        Makes an image, or its file's name, of a value that is no string, and of what to call it;
        None: every value must be a string.

    Raises TextError for an encoding that does not exist.
    """

    text: str | None = None
    pair: str | None = None
    label: str = "label"
    encoding: str = "utf-8"
    labels_are: str | None = None
    texts: tuple[str, ...] = TEXT_COLUMNS
    stored: Callable[[object, str], NDArray[np.uint8] | str] | None = None

    def __post_init__(self) -> None:
        if self.labels_are not in (None, *READINGS):
            raise TextError(f"{OPTION} {self.labels_are}: it must be one of {', '.join(READINGS)}")
        try:
            "".encode(self.encoding)
            codecs.lookup(self.encoding)
        except (LookupError, UnicodeError, ValueError):
            raise TextError(
                f"no text encoding named {self.encoding!r}: give utf-8, latin-1, cp1252, utf-16 or "
                "another that Python knows"
            ) from None


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Options that say how a file of texts is laid out."""
    group = parser.add_argument_group("layout of a .csv, .tsv, .jsonl or .parquet file")
    group.add_argument(
        "--text-column", metavar="NAME", help=f"default: the first of {', '.join(TEXT_COLUMNS)}"
    )
    group.add_argument(
        "--pair-column",
        metavar="NAME",
        help="second text of a model trained on pairs (default: the first of "
        f"{', '.join(PAIR_COLUMNS)} that is there)",
    )
    group.add_argument("--label-column", metavar="NAME", default="label", help="default: label")
    group.add_argument(
        OPTION,
        choices=READINGS,
        help="reading of labels that could be the name of one class and the index of another; "
        "indices: class names in a .parquet file do not count (default: decided for the whole "
        "file, which is refused where both fit)",
    )
    group.add_argument("--encoding", metavar="NAME", default="utf-8", help="default: utf-8")


def layout_of(options: argparse.Namespace) -> Layout:
    """The Layout that the options of `add_columns` name."""
    return Layout(
        options.text_column,
        options.pair_column,
        options.label_column,
        options.encoding,
        options.labels_are,
    )


def read_texts(
    path: str | Path,
    *,
    names: Sequence[str] | None = None,
    layout: Layout | None = None,
    task: str = CLASSIFICATION,
) -> list[Review]:
    """The texts of a file: .csv, .tsv or .parquet, .jsonl (an object a line) or .txt (a line).

    A label is an index from 0 (1 and 1.0 are the same), or one of ``names``, whose position is then
    its index: which of both, `data_label` decides for the whole file; an absent or empty label
    is None. Without ``names`` every label must be an index; where they are the empty tuple, what a
    file says of its texts is not looked at. The integers of a Parquet file of `datasets` stand for
    the names in it. For a ``task`` of several labels or of numbers, whose outputs are called
    ``names``, a text has targets in place of a label, in the label's column or, where there is
    none, in columns with the names of the outputs.
    A row without a text is left out, and a note on stderr says how many.
    Columns that are not read are named on stderr. Raises TextError naming the file and line (of a
    Parquet file the row) for what cannot be read.
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
    """What read_texts reads, one at a time: for files larger than memory.

    They are read twice where the labels can be names as well as indices. empty: a row without a
    text is a Review of the text "", so that what comes out has a place for each row; the empty
    lines of a .txt, which separate, are none.
    """
    path = Path(path)
    empty = empty and path.suffix.lower() != ".txt"
    lines: list[int] = []
    for line, review in _reviews(path, names, layout or Layout(), task):
        if not review.present:
            lines.append(line)
        if review.present or empty:
            yield review
    if lines:
        left = "kept as empty rows" if empty else "left out"
        print(
            f"note: {path}: rows without a text are {left}: {len(lines):,}, the first is "
            f"{place(path, lines[0])}",
            file=sys.stderr,
            flush=True,
        )


def until_a_text(reviews: Iterator[Review], source: str) -> Iterator[Review]:
    """The empty rows before the first text, and that; TextError where there is none."""
    for review in reviews:
        yield review
        if review.present:
            return
    raise TextError(f"{source} holds no text")


def _reviews(
    path: Path, names: Sequence[str] | None, layout: Layout, task: str
) -> Iterator[tuple[int, Review]]:
    """Each row and its line."""
    if names == ():
        layout = replace(layout, label="")
    if task == TOKEN_CLASSIFICATION:
        asked = None if layout.label in ("", "label") else layout.label
        for one in data_words.stream(
            path, names or (), layout.text, asked, layout.encoding, layout.labels_are
        ):
            yield one.line, Review(one.text, None, words=one.words, tags=one.tags)
        return
    outputs = (names or ()) if task in (MULTI_LABEL, REGRESSION) else ()
    classes = _classes(path, layout) if names else {}
    if task == REGRESSION:
        labels = Labels(path, None)
    else:
        labels = Labels(path, names, layout.labels_are, _of_label(path, layout, classes))
    if labels.are == INDICES:
        classes = {}
    read = partial(_placed, path, layout, outputs, classes)
    if names and task != REGRESSION:
        split = partial(targets.items, labels=labels) if outputs else _alone
        if labels.doubtful:
            labels.settle(_said(path, read, split))
        if outputs:
            targets.refuse_flags(labels, _said(path, read, split))
    for line, row, columns in read():
        text, image = _content(path, line, row, columns.text, layout)
        pair = None if columns.pair is None else _string(path, line, row, columns.pair)
        review = Review(text, None, pair, image=image, line=line)
        if names == ():
            yield line, review
            continue
        if columns.outputs:
            try:
                fields = [row.get(name) for name in columns.outputs]
                found = targets.of_fields(fields, columns.outputs, task)
            except ValueError as error:
                raise TextError(f"{place(path, line)}: {error}") from None
            yield line, replace(review, targets=found)
            continue
        try:
            value = row.get(columns.label)
            if task == REGRESSION:
                yield line, replace(review, targets=targets.numbers_of(value, outputs))
            elif outputs:
                yield line, replace(review, targets=targets.labels_of(value, labels))
            else:
                yield line, replace(review, label=labels.index(value))
        except ValueError as error:
            raise TextError(f"{place(path, line)}: {columns.label!r} {error}") from None


def label_names(path: str | Path, *, layout: Layout | None = None) -> list[str]:
    """The names of the classes in a file, for read_texts and a model's config.

    Those that a Parquet file of `datasets` has, in its order; else sorted distinct labels when they
    are words, which differ in more than case; ``["0", "1", ...]`` up to the largest when they are
    indices, with a note where some are not there. Raises TextError for a file without labels.
    """
    path, layout = Path(path), layout or Layout()
    given = _of_label(path, layout, _classes(path, layout))
    if given is not None:
        if same := same_names(given):
            raise TextError(f"{path}: its classes {same[0]!r} and {same[1]!r} are the same name")
        return list(given)
    values: dict[str, tuple[str, int]] = {}
    for line, row, columns in _placed(path, layout, (), {}):
        if name := word(row.get(columns.label)):
            values.setdefault(name.casefold(), (name, line))
    if not values:
        raise TextError(f"{path} has no labels: a {layout.label!r} column or key is needed")
    if layout.labels_are == NAMES or (
        layout.labels_are is None and not all(map(INDEX.fullmatch, values))
    ):
        return sorted(name for name, _ in values.values())
    found, labels = set(), Labels(path, None)
    for name, line in values.values():
        try:
            found.add(labels.index(name) or 0)
        except ValueError as error:
            raise TextError(f"{place(path, line)}: {layout.label!r} {error}") from None
    absent = sorted(set(range(max(found))) - found)
    if absent and layout.labels_are is None:
        print(
            f"note: {path}: labels are read as indices: class {absent[0]} has no text ({OPTION} "
            f"{NAMES}: the classes are those that have)",
            file=sys.stderr,
            flush=True,
        )
    return [str(index) for index in range(max(found) + 1)]


@dataclass(frozen=True)
class Columns:
    """The columns of one file, spelled as there.

    outputs: one for each output of the model, where those hold what is right; else empty.
    """

    text: str
    pair: str | None
    label: str
    outputs: tuple[str, ...] = ()

    @classmethod
    def choose(
        cls,
        path: Path,
        line: int,
        found: list[str],
        layout: Layout,
        say: bool = True,
        outputs: Sequence[str] = (),
    ) -> "Columns":
        """Raises TextError when the file has no text column, or not one that was asked for.

        ``outputs`` are looked for by their names where there is no column of labels.
        """

        def one_of(option: str, names: Sequence[str], needed: bool) -> str | None:
            name = column_of(path, line, found, names)
            if name is not None or not needed:
                return name
            if path.suffix.lower() == ".jsonl":
                raise TextError(
                    f"{path}:{line}: {names[0]!r} is missing; its keys are {_names(found)}: name "
                    f"one with {option}"
                )
            raise TextError(
                f"{path} has no column {names[0]!r}: its header is {_names(found)}: name one with "
                f"{option}"
            )

        text = one_of("--text-column", [layout.text] if layout.text else layout.texts, needed=True)
        assert text is not None
        pair = None
        if layout.pair != "":
            pairs = PAIR_COLUMNS if layout.pair is None else [layout.pair]
            pair = one_of("--pair-column", pairs, layout.pair is not None)
        label = layout.label
        if label:
            asked = label != "label" and path.suffix.lower() != ".jsonl"
            label = one_of("--label-column", [label], asked) or label
        each: tuple[str, ...] = ()
        if label not in found:
            spelled = Counter(name.strip().casefold() for name in outputs)
            places = [
                column_of(path, line, found, [name])
                if spelled[name.strip().casefold()] == 1
                else next((one for one in found if one.strip() == name.strip()), None)
                for name in outputs
            ]
            each = tuple(place for place in places if place is not None)
            if each and len(each) < len(outputs):
                missing = outputs[places.index(None)]
                raise TextError(
                    f"{path}:{line}: it has a column {each[0]!r} and none {missing!r}: each output "
                    f"of the model needs one, or all are in {layout.label!r}"
                )
        unread = [name for name in found if name not in (text, pair, label or "label", *each)]
        if unread and say:
            print(f"note: {path}: not read: {_names(unread)}", file=sys.stderr, flush=True)
        return cls(text, pair, label, each)


Placed = Iterator[tuple[int, dict[str, object], Columns]]


def _placed(
    path: Path,
    layout: Layout,
    outputs: Sequence[str],
    classes: Mapping[str, Sequence[str]],
    say: bool = True,
) -> Placed:
    """The rows of a file with the columns that are read; the objects of a .jsonl may differ."""
    if path.suffix.lower() in parquet.SUFFIXES:
        yield from _parquet_rows(path, layout, outputs, classes, say)
        return
    objects = path.suffix.lower() == ".jsonl"
    chosen: dict[tuple[str, ...], Columns] = {}
    first: Columns | None = None
    for line, row in rows(path, layout.encoding):
        keys = tuple(row)
        if keys not in chosen:
            chosen[keys] = Columns.choose(
                path,
                line if objects else 1,
                list(keys),
                layout,
                say=say and first is None,
                outputs=outputs,
            )
        first = first or chosen[keys]
        if (first.pair is None) != (chosen[keys].pair is None):
            has, before = ("no pair", "have one") if first.pair else ("a pair", "have none")
            raise TextError(f"{path}:{line}: it has {has} and the rows before it {before}")
        yield line, row, chosen[keys]
    asked = objects and layout.label not in ("", "label")
    if asked and chosen and not any(one.label in keys for keys, one in chosen.items()):
        raise TextError(
            f"{path}: no object has the key {layout.label!r}: name the labels' with --label-column"
        )


def _alone(value: object) -> list[object]:
    return [value]


def _said(
    path: Path, read: Callable[..., Placed], split: Callable[[object], list[object]]
) -> Iterator[tuple[int, list[object]]]:
    """The labels in each row's column of them, with its line."""
    for line, row, columns in read(say=False):
        try:
            yield line, [] if columns.outputs else split(row.get(columns.label))
        except ValueError as error:
            raise TextError(f"{place(path, line)}: {columns.label!r} {error}") from None


def _names(columns: Sequence[str]) -> str:
    return ", ".join(map(called, columns))[:200] or "nothing"


def _content(
    path: Path, line: int, row: dict[str, object], column: str, layout: Layout
) -> tuple[str, NDArray[np.uint8] | None]:
    """The text of a row; the image that it has in its place, and which one it is."""
    value = row.get(column)
    if layout.stored is None or value is None or isinstance(value, str):
        return _string(path, line, row, column), None
    try:
        found = layout.stored(value, f"{place(path, line)}: {column!r}")
    except ValueError as error:
        raise TextError(str(error)) from None
    return (found, None) if isinstance(found, str) else (place(path, line), found)


def _string(path: Path, line: int, row: dict[str, object], column: str) -> str:
    """The text of a row, "" where there is none."""
    text = "" if row.get(column) is None else row[column]
    if not isinstance(text, str):
        raise TextError(f"{place(path, line)}: {column!r} is {shown(text)}, not a string")
    return text if text.strip() else ""


def _classes(path: Path, layout: Layout) -> Mapping[str, Sequence[str]]:
    """The names that a Parquet file gives to the integers of its columns, where they count."""
    if path.suffix.lower() not in parquet.SUFFIXES or layout.labels_are == INDICES:
        return {}
    with reading(path):
        return parquet.classes(path)


def _of_label(
    path: Path, layout: Layout, classes: Mapping[str, Sequence[str]]
) -> Sequence[str] | None:
    column = column_of(path, 0, list(classes), [layout.label])
    return None if column is None else classes[column]


def _parquet_rows(
    path: Path,
    layout: Layout,
    outputs: Sequence[str],
    classes: Mapping[str, Sequence[str]],
    say: bool,
) -> Placed:
    """The rows with the columns that are read; the others are not."""
    with reading(path):
        found = parquet.names(path)
        columns = Columns.choose(path, 0, found, layout, say=say, outputs=outputs)
        read = (columns.text, columns.pair, columns.label, *columns.outputs)
        wanted = dict.fromkeys(filter(None, read))
        several = [name for name in wanted if name in found]
        for number, row in parquet.rows(path, several, classes):
            yield number, row, columns

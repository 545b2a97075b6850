"""Inputs with their labels, of every kind: texts, images and files of rows.

Texts are a corpus or a file (quant.texts). A folder has a folder of images or .npy files for each
class, called like it, or files without labels. A table (.csv, .tsv, .jsonl, .parquet) names a file
in each row, from the table's own folder on; a .txt is one name a line. A file by itself has no
label.
"""

import gzip
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from cli.errors import UserError

import numpy as np

from quant.images.files import SUFFIXES
from quant.model.spec import CLASSIFICATION, FILES, IMAGES, TEXTS, TOKEN_CLASSIFICATION
from quant.texts import corpora
from quant.texts.data_file import (
    PARQUET,
    TEXT_COLUMNS,
    Layout,
    Review,
    TextError,
    class_of,
    stream_texts,
)

COLUMNS = ("image", "image_path", "file_name", "file", "path", *TEXT_COLUMNS)
TABLES = (".csv", ".tsv", ".jsonl", ".txt", *PARQUET)
DIGITS = "digits"

_SUFFIXES: dict[str, tuple[str, ...]] = {TEXTS: (), IMAGES: SUFFIXES, FILES: (".npy",)}


def usual(inputs: str, of_texts: str) -> str:
    """The corpus that a command takes for a model of these inputs by default; none for rows."""
    if inputs == FILES:
        raise TextError(
            "the rows of this model are those of a front end of yours, and none are at hand: name "
            ".npy files of rows, as docs/models.md says"
        )
    return DIGITS if inputs == IMAGES else of_texts


def load(inputs: str, source: str | Path, split: str = "test", **options: Any) -> list[Review]:
    """What `stream` gives, as a list."""
    return list(stream(inputs, source, split, **options))


def stream(
    inputs: str,
    source: str | Path,
    split: str = "test",
    *,
    names: Sequence[str] = (),
    layout: Layout | None = None,
    task: str = CLASSIFICATION,
    empty: bool = False,
) -> Iterator[Review]:
    """The inputs of ``source``: the split of a corpus, or a path, which has one split.

    inputs: as EncoderSpec.inputs. names, layout, task, empty: as of `stream_texts`. The text of an
    image or a file of rows is its name; a class for every row has no tags. A corpus's labels are
    left out, with a note, where the model's names are not as many. TextError where there is none.
    """
    names, path, named = tuple(names), Path(source), CORPORA[inputs]
    if str(source) in named:
        found = iter(_fitting(named[str(source)](split), str(source), names))
    elif not path.exists():
        table = f"a {', '.join(TABLES)} file"
        files = f"{table} of names, or a folder or file of {', '.join(_SUFFIXES[inputs])}"
        known = ", ".join([*named, table if inputs == TEXTS else files])
        raise TextError(f"no data set or file named {str(source)!r}: give {known}")
    elif inputs == TEXTS:
        found = stream_texts(path, names, layout, task, empty)
    else:
        if task == TOKEN_CLASSIFICATION:
            names, task = (), CLASSIFICATION
        found = _files(inputs, path, names, layout or Layout(), task, empty)
    before = []
    for review in found:  # the first one at once
        before.append(review)
        if review.present:
            return chain(before, found)
    raise TextError(f"{source} holds no {' '.join((inputs, *_SUFFIXES[inputs]))}")


def _fitting(reviews: list[Review], source: str, names: tuple[str, ...]) -> list[Review]:
    classes = len({review.label for review in reviews})
    if len(names) in (0, classes):
        return reviews
    said = f"note: the labels of {source} are of {classes} classes, not the model's {len(names)}"
    print(f"{said}: they are left out", file=sys.stderr, flush=True)
    return [replace(review, label=None) for review in reviews]


def _files(
    inputs: str, path: Path, names: tuple[str, ...], layout: Layout, task: str, empty: bool
) -> Iterator[Review]:
    """The files in a folder, those that a table names, or one."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            kind, *rest = parts = file.relative_to(path).parts
            hidden = any(part.startswith(".") for part in parts)
            if file.suffix.lower() in _SUFFIXES[inputs] and not hidden:
                labelled = rest and names and task == CLASSIFICATION
                yield Review(str(file), _class(path / kind, names) if labelled else None)
    elif path.suffix.lower() in TABLES:
        layout = replace(layout, texts=COLUMNS)
        for review in stream_texts(path, names, layout, task, empty):
            yield replace(review, text=str(path.parent / review.text) if review.present else "")
    else:
        yield Review(str(path), None)


def _class(folder: Path, names: tuple[str, ...]) -> int:
    try:
        return class_of(folder.name, names)
    except UserError as error:
        raise TextError(f"{folder}: its name {error}") from None


def digits(split: str) -> list[Review]:
    """The digits of one split: test 360, validation 180, train 1,257; ink is 255.

    1,797 handwritten digits of 8 x 8 pixels by 13 people (Alpaydin and Kaynak, 1998), from the
    package scikit-learn; `quant.texts.corpora.split` splits them by their pixels.
    """
    found = corpora.split(_digits(), 36, 18)[split]
    return [replace(x, text=f"{DIGITS} {split} {i}") for i, x in enumerate(found, 1)]


@cache
def _digits() -> dict[bytes, Review]:
    """All digits by their pixels; a line of the file has 64 pixels and the label."""
    folder = corpora.installed("scikit-learn", "sklearn") / "datasets" / "data"
    with gzip.open(folder / "digits.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    images = np.rint(table[:, :-1] * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
    return {x.tobytes(): Review("", int(y), image=x) for x, y in zip(images, table[:, -1])}


CORPORA: dict[str, dict[str, Callable[[str], list[Review]]]]
CORPORA = {TEXTS: corpora.CORPORA, IMAGES: {DIGITS: digits}, FILES: {}}
"""By the inputs and the name."""
NAMED = (*corpora.CORPORA, DIGITS)

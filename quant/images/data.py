"""Inputs with their labels, of every kind: texts, images and files of rows.

Texts are a corpus or a file (quant.texts). A folder has a folder of images or .npy files for each
class, called like it, or files without labels. A table (.csv, .tsv, .jsonl, .parquet) names a file
in each row, from the table's own folder on; a .txt is one name a line. A file by itself has no
label. An image becomes 8-bit pixels that stand upright: what would be lost silently is refused,
transparency and grey of more than 8 bits.
"""

import gzip
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from cli.errors import UserError
from cli.options import Parser

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from quant.model import spec
from quant.model.spec import FILES, IMAGES, TEXTS, InputError, saying
from quant.texts import corpora, data_file
from quant.texts.data_file import TABLES, TEXT_COLUMNS, Layout, Review, TextError

COLUMNS = ("image", "image_path", "file_name", "file", "path", *TEXT_COLUMNS)
DIGITS = "digits"

_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP")
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp")
_SUFFIXES: dict[str, tuple[str, ...]] = {TEXTS: (), IMAGES: _IMAGES, FILES: (".npy",)}
"""Of the files that a folder is searched for; an image is known by its content."""


def add_data(
    parser: Parser, default: str, split: str = "", name: str = "--data", **settings: Any
) -> None:
    """The option, or an argument of another name, that names the inputs."""
    what = (
        f"texts: {' or '.join(corpora.CORPORA)}{split}, or a .csv, .tsv, .jsonl, .txt or "
        f".parquet file (default: {default}); of a model of images {DIGITS} (the default), a "
        "folder or a table of files; of one of rows a folder or a table of .npy files"
    )
    parser.add_argument(name, metavar="NAME|FILE", help=what, **settings)


def usual(inputs: str, of_texts: str) -> str:
    """The corpus that a command takes for a model of these inputs by default; none for rows."""
    if inputs == FILES:
        what = "the rows of this model are those of a front end of yours, and none are at hand"
        raise TextError(f"{what}: name .npy files of rows, as docs/models.md says")
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
    task: str = spec.CLASSIFICATION,
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
        found = data_file.stream_texts(path, names, layout, task, empty)
    else:
        if task == spec.TOKEN_CLASSIFICATION:
            names, task = (), spec.CLASSIFICATION
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
                labelled = rest and names and task == spec.CLASSIFICATION
                yield Review(str(file), _class(path / kind, names) if labelled else None)
    elif path.suffix.lower() in TABLES:
        layout = replace(layout, texts=COLUMNS)
        for review in data_file.stream_texts(path, names, layout, task, empty):
            yield replace(review, text=str(path.parent / review.text) if review.present else "")
    else:
        yield Review(str(path), None)


def _class(folder: Path, names: tuple[str, ...]) -> int:
    try:
        return data_file.class_of(folder.name, names)
    except UserError as error:
        raise TextError(f"{folder}: its name {error}") from None


def read(path: str | Path) -> NDArray[np.uint8]:
    """The pixels of an image file: [h, w] of a grey one, else [h, w, 3], in red, green and blue."""
    advice = "it must be a PNG, JPEG, GIF, BMP or WebP image"
    with saying(InputError, f"{path} cannot be read", advice), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(_file(path), formats=_FORMATS) as opened:
            image = ImageOps.exif_transpose(opened)
        if image.mode[0] in "IF":
            raise ValueError(f"grey of more than 8 bits, mode {image.mode}: convert it first")
        alpha = image.convert("RGBA").getchannel("A") if image.has_transparency_data else None
        if alpha and alpha.getextrema() != (255, 255):
            raise ValueError("transparent pixels: put it onto the background that is meant first")
        return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA", "La") else "RGB"))


def read_rows(path: Path, hidden: int, most: int) -> NDArray[np.float32]:
    """The rows [L, hidden] of a .npy file of floats, L from 1 to ``most``."""
    advice = f"it must be a .npy file of finite float32 [L, {hidden}], L from 1 to {most:,}"
    error = saying(InputError, f"{path} cannot be read", advice)
    with error, _file(path).open("rb") as file, np.errstate(over="ignore"):
        rows = np.load(file, allow_pickle=False)
        if rows.dtype.kind != "f" or rows.shape[1:] != (hidden,) or not 0 < len(rows) <= most:
            raise ValueError(f"an array of {rows.dtype} {list(rows.shape)}")
        found: NDArray[np.float32] = rows.astype(np.float32)
        if wrong := int((~np.isfinite(found)).sum()):
            raise ValueError(f"{wrong:,} values that are not finite in float32")
        return found


def _file(path: str | Path) -> Path:
    """The path of a file; ValueError for a pipe, which would be waited for, and for a folder."""
    path = Path(path)
    if not path.is_file():
        raise ValueError("it is no file" if path.exists() else "it does not exist")
    return path


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

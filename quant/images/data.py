"""Images, or files of rows, with their labels: a folder, a table with a column of files, or arrays.

- A folder has one folder a class, called like it, as torchvision and `datasets` have them, or only
  images, which have no labels. Of rows these are .npy files.
- A table (.csv, .tsv, .jsonl, .parquet) names a file in each row, from the table's own folder on;
  a .txt is one name a line. A .parquet may hold the images themselves, as `datasets` writes them.
- A .npz has `images`, uint8 [n, h, w] or [n, h, w, channels], and with labels `labels`: [n], or
  [n, C] for the C outputs of a model of several labels (0 and 1) or of numbers. Rows have none.
- An image or a .npy file itself is one without a label.

Labels are read as those of texts are (quant.texts.data_file).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from quant.images.corpora import CORPORA, Images
from quant.images.files import SUFFIXES, stored
from quant.model.spec import (
    CLASSIFICATION,
    FILES,
    IMAGES,
    MULTI_LABEL,
    TEXTS,
    TOKEN_CLASSIFICATION,
)
from quant.texts import corpora as texts
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
ARRAYS = ".npz"
DIGITS = "digits"

NAMED = (*texts.CORPORA, *CORPORA)
"""Of texts and of images."""


def usual(inputs: str, of_texts: str) -> str:
    """The corpus that a command takes for a model of these inputs where it is told none.

    TextError for rows, which only a front end of the user's makes.
    """
    if inputs == FILES:
        raise TextError(
            "the rows of this model are those of a front end of yours, and none are at hand: name "
            ".npy files of rows, as docs/models.md says"
        )
    return DIGITS if inputs == IMAGES else of_texts


@dataclass(frozen=True)
class _Kind:
    """What there is of an input: one of its files, how these end; corpora, arrays of several."""

    one: str
    suffixes: tuple[str, ...]
    corpora: Mapping[str, Callable[[str], Images]]
    arrays: bool


_KINDS = {
    IMAGES: _Kind("image", SUFFIXES, CORPORA, arrays=True),
    FILES: _Kind(".npy file", (".npy",), {}, arrays=False),
}


def load(
    inputs: str,
    source: str,
    split: str,
    *,
    names: Sequence[str] | None = None,
    layout: Layout | None = None,
    task: str = CLASSIFICATION,
) -> list[Review]:
    """What `stream` gives, as a list; of texts a named corpus, too (quant.texts.corpora)."""
    if inputs == TEXTS:
        return texts.load_texts(source, split, names=names, layout=layout, task=task)
    return list(stream(source, split, inputs=inputs, names=names, layout=layout, task=task))


def stream(
    source: str | Path,
    split: str = "test",
    *,
    inputs: str = IMAGES,
    names: Sequence[str] | None = None,
    layout: Layout | None = None,
    task: str = CLASSIFICATION,
    empty: bool = False,
) -> Iterator[Review]:
    """The inputs of ``source``: of a corpus by its name (then ``split`` counts), or of a path.

    inputs: as EncoderSpec.inputs; texts are those of a file. names, layout, task and empty are
    those of `quant.texts.data_file.stream_texts`. Each image or file is a Review whose text says
    which it is; a class for every row has no tags. Raises TextError naming the file for what cannot
    be read.
    """
    path, layout = Path(source), layout or Layout()
    if inputs == TEXTS:
        yield from stream_texts(path, names=names, layout=layout, task=task, empty=empty)
        return
    kind = _KINDS[inputs]
    if task == TOKEN_CLASSIFICATION:
        names, task = (), CLASSIFICATION
    if str(source) in kind.corpora:
        images, labels = kind.corpora[str(source)](split)
        for place, (image, label) in enumerate(zip(images, labels, strict=True), 1):
            yield Review(f"{source} {split} {place}", int(label), image=image)
    elif path.is_dir():
        yield from _folder(kind, path, names, task)
    elif path.suffix.lower() in TABLES:
        defaults = replace(layout, texts=COLUMNS, stored=stored if kind.arrays else None)
        for review in stream_texts(path, names=names, layout=defaults, task=task, empty=empty):
            inside = review.image is not None or not review.present
            yield review if inside else replace(review, text=str(path.parent / review.text))
    elif kind.arrays and path.suffix.lower() == ARRAYS:
        yield from _arrays(path, names, task)
    elif path.is_file():
        yield Review(str(path), None)
    else:
        arrays = f"a {ARRAYS} file with `images` and `labels`, " if kind.arrays else ""
        raise TextError(
            f"no {inputs} at {str(source)!r}: give {''.join(f'{x}, ' for x in kind.corpora)}"
            f"a folder with a folder of {inputs} for each class, a {', '.join(TABLES)} file that "
            f"names {inputs}, {arrays}or a single {kind.one}"
        )


def _folder(kind: _Kind, path: Path, names: Sequence[str] | None, task: str) -> Iterator[Review]:
    folders = sorted(one for one in path.iterdir() if one.is_dir() and one.name[0] != ".")
    if not folders or names == () or task != CLASSIFICATION:
        for file in _files(kind, path):
            yield Review(str(file), None)
        return
    of_folders = sorted(folder.name for folder in folders) if names is None else names
    for folder in folders:
        try:
            label = class_of(folder.name, tuple(of_folders))
        except ValueError as error:
            raise TextError(f"{folder}: its name {error}") from None
        for file in _files(kind, folder):
            yield Review(str(file), label)


def _files(kind: _Kind, path: Path) -> list[Path]:
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix.lower() in kind.suffixes and file.name[0] != "."
    ]
    if not files:
        raise TextError(f"{path} holds no {kind.one}: {', '.join(kind.suffixes)} are read")
    return files


def _arrays(path: Path, names: Sequence[str] | None, task: str) -> Iterator[Review]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            images = archive["images"]
            values = archive["labels"].tolist() if "labels" in archive.files else None
    except KeyError:
        raise TextError(f"{path} has no array `images`: uint8 [n, h, w] or [n, h, w, c]") from None
    except Exception as error:  # of zipfile, NumPy's reader and the system
        raise TextError(f"{path}: not a readable .npz file ({error})") from None
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or not len(images):
        raise TextError(
            f"{path}: `images` is {images.dtype} {list(images.shape)}: allowed is uint8 [n, h, w] "
            "or [n, h, w, c], n 1 or more"
        )
    if values is not None and (not isinstance(values, list) or len(values) != len(images)):
        raise TextError(f"{path}: `labels` is not one each for the {len(images)} images")
    if names == ():
        values = None
    if values is not None and task != CLASSIFICATION:
        yield from _targets(path, images, np.array(values), len(names or ()), task)
        return
    for place, image in enumerate(images):
        try:
            label = (
                None
                if values is None
                else class_of(str(values[place]), None if names is None else tuple(names))
            )
        except ValueError as error:
            raise TextError(f"{path}: label {place} {error}") from None
        yield Review(f"{path} {place}", label, image=image)


def _targets(
    path: Path, images: np.ndarray, values: np.ndarray, outputs: int, task: str
) -> Iterator[Review]:
    allowed = "0 or 1" if task == MULTI_LABEL else "a finite number"
    numeric = values.shape == (len(images), outputs) and values.dtype.kind in "biuf"
    if not numeric or not np.isfinite(values).all():
        raise TextError(
            f"{path}: `labels` is {values.dtype} {list(values.shape)}: the model has {outputs} "
            f"outputs, so it must be [{len(images)}, {outputs}], {allowed} each"
        )
    if task == MULTI_LABEL and not np.isin(values, (0, 1)).all():
        raise TextError(f"{path}: `labels` holds other numbers than 0 and 1")
    for place, (image, row) in enumerate(zip(images, values, strict=True)):
        yield Review(f"{path} {place}", None, targets=tuple(map(float, row)), image=image)

"""Inputs with their labels: images, or files of rows, beside the texts of quant.texts.

A folder has a folder of files for each class, called like it, or files without labels. A table
(.csv, .tsv, .jsonl, .parquet) names a file in each row, from the table's own folder on; a .txt is
one name a line. A file by itself has no label. Of rows these are .npy files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from cli.errors import UserError

from quant.images.corpora import CORPORA
from quant.images.files import SUFFIXES
from quant.model.spec import CLASSIFICATION, FILES, IMAGES, TEXTS, TOKEN_CLASSIFICATION
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
TABLES = (".csv", ".tsv", ".json", ".jsonl", ".txt", *PARQUET)
DIGITS = "digits"

NAMED = (*texts.CORPORA, *CORPORA)
"""Of texts and of images."""

_SUFFIXES = {IMAGES: SUFFIXES, FILES: (".npy",)}


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
    """The inputs of ``source``: the split of a corpus, or a path.

    inputs: as EncoderSpec.inputs. names, layout, task, empty: as of `stream_texts`. The text of an
    image or a file of rows is its name; a class for every row has no tags.
    """
    path, layout = Path(source), layout or Layout()
    if inputs == TEXTS:
        yield from stream_texts(path, names=names, layout=layout, task=task, empty=empty)
        return
    if task == TOKEN_CLASSIFICATION:
        names, task = (), CLASSIFICATION
    if inputs == IMAGES and str(source) in CORPORA:
        images, labels = CORPORA[str(source)](split)
        for place, (image, label) in enumerate(zip(images, labels, strict=True), 1):
            yield Review(f"{source} {split} {place}", int(label), image=image)
    elif path.is_dir():
        yield from _folder(path, _SUFFIXES[inputs], names if task == CLASSIFICATION else ())
    elif path.suffix.lower() in TABLES:
        layout = replace(layout, texts=COLUMNS)
        for review in stream_texts(path, names=names, layout=layout, task=task, empty=empty):
            text = str(path.parent / review.text) if review.present else ""
            yield replace(review, text=text)
    elif path.is_file():
        yield Review(str(path), None)
    else:
        raise TextError(
            f"no {inputs} at {str(source)!r}: give {f'{DIGITS}, ' * (inputs == IMAGES)}a folder "
            f"with a folder of {inputs} for each class, a {', '.join(TABLES)} file that names "
            f"{inputs}, or a single {' or '.join(_SUFFIXES[inputs])} file"
        )


def _folder(path: Path, suffixes: Sequence[str], names: Sequence[str] | None) -> Iterator[Review]:
    """names: of the model's classes; None: the folders' own; empty: no labels."""
    visible = [file for file in sorted(path.rglob("*")) if file.name[0] != "."]
    kinds = [file.name for file in visible if file.is_dir() and file.parent == path]
    files = [file for file in visible if file.suffix.lower() in suffixes]
    if not files:
        raise TextError(f"{path} holds no file of {', '.join(suffixes)}")
    classes = tuple(kinds if names is None else names)
    for file in files:
        kind = file.relative_to(path).parts[0]
        try:
            yield Review(str(file), class_of(kind, classes) if kind in kinds and classes else None)
        except UserError as error:
            raise TextError(f"{path / kind}: its name {error}") from None

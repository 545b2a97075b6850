"""Inputs with their labels: images, or files of rows, beside the texts of quant.texts.

A folder has a folder of files for each class, called like it, or files without labels. A table
(.csv, .tsv, .jsonl, .parquet) names a file in each row, from the table's own folder on; a .txt is
one name a line. A file by itself has no label. Files of rows are .npy files.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

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
TABLES = (".csv", ".tsv", ".jsonl", ".txt", *PARQUET)
DIGITS = "digits"

NAMED = (*texts.CORPORA, *CORPORA)
"""Of texts and of images."""

_SUFFIXES = {IMAGES: SUFFIXES, FILES: (".npy",)}


def usual(inputs: str, of_texts: str) -> str:
    """The corpus that a command takes for a model of these inputs by default; none for rows."""
    if inputs == FILES:
        raise TextError(
            "the rows of this model are those of a front end of yours, and none are at hand: name "
            ".npy files of rows, as docs/models.md says"
        )
    return DIGITS if inputs == IMAGES else of_texts


def load(inputs: str, source: str, split: str, **options: Any) -> list[Review]:
    """What `stream` gives, as a list; of texts a named corpus as well (quant.texts.corpora)."""
    if inputs == TEXTS:
        return texts.load_texts(source, split, **options)
    return list(stream(source, split, inputs=inputs, **options))


def stream(
    source: str | Path,
    split: str = "test",
    *,
    inputs: str = IMAGES,
    names: tuple[str, ...] = (),
    layout: Layout | None = None,
    task: str = CLASSIFICATION,
    empty: bool = False,
) -> Iterator[Review]:
    """The inputs of ``source``: the split of a corpus, or a path.

    inputs: as EncoderSpec.inputs. names, layout, task, empty: as of `stream_texts`. The text of an
    image or a file of rows is its name; a class for every row has no tags.
    """
    path, suffixes = Path(source), _SUFFIXES.get(inputs, ())
    if inputs != TEXTS and task == TOKEN_CLASSIFICATION:
        names, task = (), CLASSIFICATION
    options: dict[str, Any] = {"names": names, "task": task, "empty": empty}
    if inputs == TEXTS:
        yield from stream_texts(path, layout=layout, **options)
    elif inputs == IMAGES and str(source) in CORPORA:
        images, labels = CORPORA[str(source)](split)
        for place, (image, label) in enumerate(zip(images, labels, strict=True), 1):
            yield Review(f"{source} {split} {place}", int(label), image=image)
    elif path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in suffixes]
        below = [file.relative_to(path).parts for file in files]
        if not (shown := [parts for parts in below if not any(x[0] == "." for x in parts)]):
            raise TextError(f"{path} holds no file of {', '.join(suffixes)}")
        for kind, *rest in shown:
            named = rest and names and task == CLASSIFICATION
            yield Review(
                str(path.joinpath(kind, *rest)), _class(path / kind, names) if named else None
            )
    elif path.suffix.lower() in TABLES:
        layout = replace(layout or Layout(), texts=COLUMNS)
        for review in stream_texts(path, layout=layout, **options):
            text = str(path.parent / review.text) if review.present else ""
            yield replace(review, text=text)
    elif path.is_file():
        yield Review(str(path), None)
    else:
        raise TextError(
            f"no {inputs} at {str(source)!r}: give {f'{DIGITS}, ' * (inputs == IMAGES)}a folder "
            f"with a folder of {inputs} for each class, a {', '.join(TABLES)} file that names "
            f"{inputs}, or a single {' or '.join(suffixes)} file"
        )


def _class(folder: Path, names: tuple[str, ...]) -> int:
    try:
        return class_of(folder.name, names)
    except UserError as error:
        raise TextError(f"{folder}: its name {error}") from None

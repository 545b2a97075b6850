"""What makes tokens of an input: a tokenizer of texts, a front end of images, or files of rows."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from cli import files
from cli.errors import UserError

import numpy as np

from golden import store
from quant import which
from quant.foreign import tokenizer
from quant.foreign.checkpoint import Checkpoint, load
from quant.foreign.tokenizer import PIPELINE, InputError, Picture, TextTokenizer, Tokens
from quant.images import front
from quant.images.files import read, read_rows
from quant.images.front import Front
from quant.model.spec import TASKS, EncoderSpec
from quant.texts.data_file import Content


class ImageReader:
    """What TextTokenizer is to a text: images become Tokens, which bring their rows."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.resolved = None

    def encode(self, text: Content, pair: str | None = None, *, limit: int, **_: bool) -> Tokens:
        """The tokens of an image, which is a file's path or the pixels themselves.

        Every image has as many. InputError for a pair and for a limit below them.
        """
        if pair is not None:
            raise InputError("a model of images reads one image: give no pair")
        front, count = self.front, len(self.front.tokens)
        if limit < count:
            raise InputError(
                f"an image has {count} tokens, of which none can be cut, and the limit is "
                f"{limit}: give --tokens {count}"
            )
        if isinstance(text, str) and not text.strip():
            raise InputError("the path of the image is empty: give a file")
        image = text if isinstance(text, np.ndarray) else read(Path(str(text).strip()))
        ids = np.arange(count, dtype=np.int32)
        return Tokens(
            ids=ids,
            types=np.zeros_like(ids),
            words=front.tokens,
            picture=Picture(front.seen(image), len(front.names), front.grid),
            made=partial(front.rows, front.pixels(image)),
        )


class RowReader:
    """The same for files of rows, which a front end of the user's made: Tokens that bring these.

    hidden: channels of a row. most: rows of the longest file.
    """

    resolved = None

    def __init__(self, hidden: int, most: int) -> None:
        self.hidden, self.most = hidden, most

    def encode(
        self, text: Content, pair: str | None = None, *, limit: int, words: bool = False, **_: bool
    ) -> Tokens:
        """The tokens of a file, a row each, called by their numbers; each is a word by itself."""
        if pair is not None:
            raise InputError("a model of rows reads one file: give no pair")
        if not isinstance(text, str) or not text.strip():
            raise InputError("the path of the rows is empty: give a .npy file")
        path = Path(text.strip())
        count = len(read_rows(path, self.hidden, self.most))
        if count > limit:
            raise InputError(
                f"{path} has {count} rows, of which none can be cut, and the limit is {limit}: "
                f"give --tokens {count}"
            )
        ids, names = np.arange(count, dtype=np.int32), tuple(map(str, range(count)))
        return Tokens(
            ids=ids,
            types=np.zeros_like(ids),
            words=names,
            spelling=names if words else (),
            begins=tuple(range(count)) if words else (),
            made=partial(read_rows, path, self.hidden, self.most),
        )


Reader: TypeAlias = TextTokenizer | ImageReader | RowReader


def of_checkpoint(checkpoint: Checkpoint) -> Reader:
    """That of a checkpoint as loaded."""
    if checkpoint.resolved is not None and not checkpoint.spec.given:
        return TextTokenizer(checkpoint.resolved)
    return ImageReader(checkpoint.front) if checkpoint.front else _of_rows(checkpoint.spec)


def of_quantized(directory: Path, info: dict[str, Any], spec: EncoderSpec) -> Reader:
    """That which calibration wrote beside a quantized model.

    CheckpointError where it is not that of this model.
    """
    if spec.rows:
        return _of_rows(spec)
    if "front" in info:
        return ImageReader(front.stored(directory, info["front"]))
    return TextTokenizer(tokenizer.stored(directory, info))


def of_options(
    options: argparse.Namespace, tasks: Sequence[str] = TASKS
) -> tuple[EncoderSpec, Reader]:
    """The spec and the reader of the model that --model and --quantized name.

    Nothing is calibrated, so that texts that cannot be read are refused first. Raises UserError for
    another task than these.
    """
    choice = which.model_of(options)
    if not choice.there and choice.checkpoint:
        checkpoint = load(choice.checkpoint)
        checkpoint.spec.require(tasks, options.model)
        return checkpoint.spec, of_checkpoint(checkpoint)
    info = store.info_of(choice.folder)
    with reading(choice.folder):
        spec = EncoderSpec.from_json(info["spec"])
    spec.require(tasks, options.model or choice.folder)
    return spec, of_quantized(choice.folder, info, spec)


@contextmanager
def reading(quantized: Path) -> Iterator[None]:
    """UserError where the description of a quantized model lacks what is read of it."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{quantized / store.DESCRIPTION}: {error}") from None
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{quantized / store.DESCRIPTION}: its info has no usable {error}; calibrate again"
        ) from None


def _of_rows(spec: EncoderSpec) -> RowReader:
    return RowReader(spec.hidden, spec.max_tokens)


def facts(checkpoint: Checkpoint) -> dict[str, Any]:
    """What a description says of it: "tokenizer", or "front"; of rows the spec says all."""
    if checkpoint.spec.rows:
        return {}
    if checkpoint.front is not None:
        return {"front": checkpoint.front.facts}
    assert checkpoint.resolved is not None
    return {"tokenizer": checkpoint.resolved.facts}


def save(checkpoint: Checkpoint, out: Path) -> None:
    """Beside a quantized model, which can then be used alone."""
    if checkpoint.front is not None:
        checkpoint.front.save(out)
    elif checkpoint.resolved is not None and not checkpoint.spec.rows:
        files.write(out / PIPELINE, checkpoint.resolved.pipeline.encode())

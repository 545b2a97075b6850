"""What makes tokens of an input: a tokenizer of texts, a front end of images, or files of rows."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from cli import files

import numpy as np
from numpy.typing import NDArray

from quant.foreign import tokenizer
from quant.foreign.checkpoint import Checkpoint
from quant.foreign.tokenizer import PIPELINE, InputError, Picture, TextTokenizer, Tokens
from quant.images import front
from quant.images.files import read, read_rows
from quant.images.front import Front
from quant.model.spec import EncoderSpec


class ImageReader:
    """What TextTokenizer is to a text: images become Tokens, which bring their rows."""

    def __init__(self, front: Front) -> None:
        self.front = front
        self.resolved = None

    def encode(
        self,
        text: str | Sequence[str] | NDArray[np.uint8],
        pair: str | None = None,
        *,
        limit: int,
        words: bool = False,
        answer: bool = False,
    ) -> Tokens:
        """The tokens of an image, which is a file's path or the pixels themselves.

        Every image has as many, so InputError is also raised for a limit below them, besides a
        pair, and whatever `quant.images.files.read` and the front end refuse.
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
        self,
        text: str | Sequence[str] | NDArray[np.uint8],
        pair: str | None = None,
        *,
        limit: int,
        words: bool = False,
        answer: bool = False,
    ) -> Tokens:
        """The tokens of a file, a row each, called by their numbers; each is a word by itself.

        InputError for a pair, for what `quant.images.files.read_rows` refuses, and for more rows
        than the limit.
        """
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
    if checkpoint.spec.rows:
        return _of_rows(checkpoint.spec)
    if checkpoint.front is not None:
        return ImageReader(checkpoint.front)
    assert checkpoint.resolved is not None
    return TextTokenizer(checkpoint.resolved)


def of_quantized(directory: Path, info: dict[str, Any], spec: EncoderSpec) -> Reader:
    """That which calibration wrote beside a quantized model.

    CheckpointError where it is not that of this model.
    """
    if spec.rows:
        return _of_rows(spec)
    if "front" in info:
        return ImageReader(front.stored(directory, info["front"]))
    return TextTokenizer(tokenizer.stored(directory, info))


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
    if checkpoint.spec.rows:
        return
    if checkpoint.front is not None:
        checkpoint.front.save(out)
        return
    assert checkpoint.resolved is not None
    files.write(out / PIPELINE, checkpoint.resolved.pipeline.encode())

"""What makes tokens of an input: the tokenizer of texts, or the front end of images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from cli import files

import numpy as np
from numpy.typing import NDArray

from quant.foreign import tokenizer
from quant.foreign.checkpoint import Checkpoint
from quant.foreign.tokenizer import PIPELINE, InputError, Picture, TextTokenizer, Tokens
from quant.images import front
from quant.images.files import read
from quant.images.front import Front


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
            picture=Picture(front.image(image), len(front.names), front.grid),
            front=front,
        )


Reader: TypeAlias = TextTokenizer | ImageReader


def of_checkpoint(checkpoint: Checkpoint) -> Reader:
    """That of a checkpoint as loaded."""
    if checkpoint.front is not None:
        return ImageReader(checkpoint.front)
    assert checkpoint.resolved is not None
    return TextTokenizer(checkpoint.resolved)


def of_quantized(directory: Path, info: dict[str, Any]) -> Reader:
    """That which calibration wrote beside a quantized model.

    CheckpointError where it is not that of this model.
    """
    if "front" in info:
        return ImageReader(front.stored(directory, info["front"]))
    return TextTokenizer(tokenizer.stored(directory, info))


def facts(checkpoint: Checkpoint) -> dict[str, Any]:
    """What a description says of it: "tokenizer", or "front"."""
    if checkpoint.front is not None:
        return {"front": checkpoint.front.facts}
    assert checkpoint.resolved is not None
    return {"tokenizer": checkpoint.resolved.facts}


def save(checkpoint: Checkpoint, out: Path) -> None:
    """Beside a quantized model, which can then be used alone."""
    if checkpoint.front is not None:
        checkpoint.front.save(out)
        return
    assert checkpoint.resolved is not None
    files.write(out / PIPELINE, checkpoint.resolved.pipeline.encode())

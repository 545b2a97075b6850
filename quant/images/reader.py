"""An image as the tokens of a model: the rows that its front end makes, in place of a tokenizer."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quant.foreign.tokenizer import InputError, Picture, Tokens
from quant.images import files
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
        image = text if isinstance(text, np.ndarray) else files.read(Path(str(text)))
        ids = np.arange(count, dtype=np.int32)
        return Tokens(
            ids=ids,
            types=np.zeros_like(ids),
            words=front.tokens,
            picture=Picture(front.image(image), len(front.names), front.grid),
            front=front,
        )

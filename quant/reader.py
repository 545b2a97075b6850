"""What makes tokens of an input: a tokenizer of texts, a front end of images or files of rows."""

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


class RowReader:
    """What TextTokenizer is to a text, for what brings rows: images, or files of rows.

    front: of images; None for files of rows, which a front end of the user's made.
    """

    resolved = None

    def __init__(self, spec: EncoderSpec, front: Front | None) -> None:
        self.hidden, self.most, self.front = spec.hidden, spec.max_tokens, front

    def encode(
        self, text: Content, pair: str | None = None, *, limit: int, words: bool = False, **_: bool
    ) -> Tokens:
        """The tokens of an image or its path, or of a .npy file of rows, each a word by itself.

        Every image has as many. InputError for a pair and for a limit below them.
        """
        thing = "image" if self.front else "file of rows"
        if pair is not None:
            raise InputError(f"a model of {thing}s reads one {thing}: give no pair")
        if isinstance(text, str) and not text.strip():
            raise InputError(f"the path of the {thing} is empty: give a file")
        path, picture = Path(str(text).strip()), None
        made = partial(read_rows, path, self.hidden, self.most)
        if self.front:
            image = text if isinstance(text, np.ndarray) else read(path)
            picture = Picture(self.front.seen(image), len(self.front.names), self.front.grid)
            made, names = partial(self.front.rows, self.front.pixels(image)), self.front.tokens
        else:
            names = tuple(map(str, range(len(made()))))
        count = len(names)
        if count > limit:
            raise InputError(
                f"the {thing} has {count} tokens, of which none can be cut, and the limit is "
                f"{limit}: give --tokens {count}"
            )
        ids = np.arange(count, dtype=np.int32)
        return Tokens(
            ids=ids,
            types=np.zeros_like(ids),
            words=names,
            spelling=names if words else (),
            begins=tuple(range(count)) if words else (),
            picture=picture,
            made=made,
        )


Reader: TypeAlias = TextTokenizer | RowReader


def of_checkpoint(checkpoint: Checkpoint) -> Reader:
    """That of a checkpoint as loaded."""
    if checkpoint.resolved is not None and not checkpoint.spec.given:
        return TextTokenizer(checkpoint.resolved)
    return RowReader(checkpoint.spec, checkpoint.front)


def of_quantized(directory: Path, info: dict[str, Any], spec: EncoderSpec) -> Reader:
    """That which calibration wrote beside a quantized model.

    CheckpointError where it is not that of this model.
    """
    if spec.rows or "front" in info:
        return RowReader(spec, None if spec.rows else front.stored(directory, info["front"]))
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

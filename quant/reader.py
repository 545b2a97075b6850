"""What makes tokens of an input: a tokenizer of texts, a front end of images or files of rows."""

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from cli import files
from cli.errors import UserError

import numpy as np

from golden import store
from quant import which
from quant.foreign.checkpoint import Checkpoint, load
from quant.foreign.resolve import Resolved
from quant.foreign.tokenizer import InputError, Picture, TextTokenizer, Tokens
from quant.images.files import read, read_rows, saying
from quant.images.front import Front
from quant.model.spec import TASKS, CheckpointError, EncoderSpec
from quant.texts.data_file import Content


class RowReader:
    """TextTokenizer's twin for images, which have a front end, and for files of rows."""

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


def _reader(spec: EncoderSpec, part: Resolved | Front | None) -> Reader:
    return TextTokenizer(part) if isinstance(part, Resolved) else RowReader(spec, part)


def of_checkpoint(checkpoint: Checkpoint) -> Reader:
    """That of a checkpoint as loaded."""
    return _reader(checkpoint.spec, checkpoint.front or checkpoint.resolved)


def of_quantized(directory: Path, info: dict[str, Any], spec: EncoderSpec) -> Reader:
    """That which `save` wrote beside a quantized model, whose description has its `facts`.

    CheckpointError where it is not that of this model.
    """
    if spec.rows:
        return RowReader(spec, None)
    name = "front" if "front" in info else "tokenizer"
    kind: type[Resolved | Front] = Front if name == "front" else Resolved
    what = f"{directory / kind.FILE} is not the {name} in {store.DESCRIPTION}"
    with saying(CheckpointError, what, "calibrate again"):
        facts, content = dict(info[name]), (directory / kind.FILE).read_bytes()
        if sha256(content).hexdigest() != facts.pop("sha256"):
            raise ValueError("its SHA-256 is another")
        return _reader(spec, kind.of(content, facts))


def of_options(
    options: argparse.Namespace, tasks: Sequence[str] = TASKS
) -> tuple[EncoderSpec, Reader]:
    """The spec and the reader of the model that --model and --quantized name.

    Nothing is calibrated, so that texts that cannot be read are refused first. Raises UserError for
    another task than these.
    """
    folder, there, model = which.model_of(options)
    if not there and model:
        checkpoint = load(model)
        checkpoint.spec.require(tasks, options.model)
        return checkpoint.spec, of_checkpoint(checkpoint)
    info = store.info_of(folder)
    with reading(folder):
        spec = EncoderSpec.from_json(info["spec"])
    spec.require(tasks, options.model or folder)
    return spec, of_quantized(folder, info, spec)


def reading(quantized: Path) -> AbstractContextManager[None]:
    """UserError where the description of a quantized model lacks what is read of it."""
    return saying(UserError, f"{quantized / store.DESCRIPTION} cannot be used", "calibrate again")


def facts(checkpoint: Checkpoint) -> dict[str, Any]:
    """What a description says of it: "tokenizer", or "front"; of rows the spec says all."""
    parts = {"front": checkpoint.front, "tokenizer": checkpoint.resolved}
    return {name: part.facts for name, part in parts.items() if part}


def save(checkpoint: Checkpoint, out: Path) -> None:
    """Beside a quantized model, which can then be used alone."""
    if part := checkpoint.front or checkpoint.resolved:
        files.write(out / part.FILE, part.content)

"""The integer model with its tokenizer, read from the folder of `quant.calibrate`."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self, TextIO

from cli import files
from cli.errors import UserError
from cli.options import Parser, add_json, add_quantized, add_tokens

import numpy as np
from numpy.typing import NDArray

from golden import fast, store
from quant import which
from quant.calibrate import MAX_TOKENS, calibrated
from quant.foreign.checkpoint import Checkpoint, fingerprint, load
from quant.foreign.proof import said
from quant.foreign.tokenizer import InputError, Tokens, encode, placed
from quant.measure.metrics import shown
from quant.measure.tasks import texts_of
from quant.model import float_model
from quant.model.spec import CheckpointError, EncoderSpec, Floats
from quant.quantize import quantizers
from quant.quantize.encoder import Quantized, with_tokens
from quant.texts.data_file import Content, Review, TextError, add_columns

CHUNK = 64
"""Texts of a file in memory at a time."""


@dataclass(frozen=True)
class Predicted:
    """A text of a file by its number from 1; tokens and outputs are None where it is empty.

    exact: the float model's, None where it did not run.
    """

    number: int
    review: Review
    tokens: Tokens | None = None
    codes: NDArray[np.int64] | None = None
    exact: Floats | None = None

    def to_json(self) -> dict[str, Any]:
        """The text, and how many tokens it has where it is not empty."""
        line: dict[str, Any] = {"text": self.review.text}
        line |= {} if self.review.pair is None else {"pair": self.review.pair}
        if self.tokens is not None:
            line |= {"tokens": len(self.tokens.ids), "dropped_tokens": self.tokens.dropped}
        return line


@dataclass(frozen=True)
class QuantizedModel(Quantized):
    """A quantized model with its tokenizer; the float checkpoint beside it where it is there."""

    spec: EncoderSpec
    reader: which.Reader
    checkpoint: Checkpoint | None

    @classmethod
    def load(cls, quantized: Path, model: Path | None, floats: bool = True) -> Self:
        """Without ``model`` the checkpoint that was calibrated is used where it is still there.

        Without ``floats`` none is looked for. Raises UserError naming the folder that cannot be
        read, and where the two do not belong together.
        """
        integer_model, info = store.load(quantized)
        with which.reading(quantized):
            spec = EncoderSpec.from_json(info["spec"])
            quantizers.scale(info["tensors"]["logits"])
            source = info["checkpoint"] if floats else {"directory": "", "sha256": ""}
            folder, sha256 = model or Path(source["directory"]), source["sha256"]
        its, checkpoint = which.of_quantized(quantized, info, spec), None
        try:
            made = fingerprint(folder) if floats else None
        except (CheckpointError, OSError):
            if model:
                raise
            made = None
        if made == sha256:
            checkpoint = load(folder, source.get("task"), its.resolved)
        elif floats and model:
            raise UserError(f"{quantized} was not made from {model}: calibrate again")
        return cls(integer_model, info, spec, its, checkpoint)

    @classmethod
    def of_options(cls, options: argparse.Namespace, tasks: Sequence[str]) -> tuple[Path, Self]:
        """The model that a command's options name, and its folder, calibrated first if needed.

        Raises UserError as load, and for a model of another task than these.
        """
        quantized, model = calibrated(options, tasks)
        found = cls.load(quantized, model)
        found.spec.require(tasks, quantized)
        return quantized, found

    def require_checkpoint(self) -> Checkpoint:
        """Raises UserError when only the integer model is there."""
        if self.checkpoint is None:
            what = f"{self.info['checkpoint']['directory']}, which was calibrated"
            gone = f"the float checkpoint {what}, is gone or has changed"
            raise UserError(f"{gone}: give its folder with --model")
        return self.checkpoint

    def tokens(
        self, text: Content, pair: str | None = None, max_tokens: int = MAX_TOKENS
    ) -> Tokens:
        """The tokens of a text, of its words, of an image or its path, or of a file of rows."""
        return encode(self.spec, self.reader, text, pair, max_tokens)

    def placed(self, texts: Sequence[Tokens]) -> tuple[Self, list[Tokens]]:
        """This model with the rows that the inputs bring, and the inputs that number them.

        Both as they are where none brings rows, as texts do not.
        """
        table, checkpoint, numbered = placed(self.checkpoint, texts)
        if table is None:
            return self, numbered
        return replace(with_tokens(self, table), checkpoint=checkpoint), numbered

    def run(
        self, texts: Sequence[Tokens], floats: int | None = None
    ) -> tuple[Sequence[NDArray[np.int64]], list[Floats]]:
        """The outputs of some texts, [C] or [L, C] each.

        Golden's of all, by the engine that equals it bit for bit; those of the float model, where
        it is there, of the first ``floats`` (None: of all).
        """
        its, texts = self.placed(texts)
        codes = fast.run_batch(its.model, [t.ids for t in texts], [t.types for t in texts])
        integers = texts_of(self.spec, codes.astype(np.int64), texts)
        if self.spec.pooling == "last":
            integers = [rows[-1] for rows in integers]
        if its.checkpoint is None:
            return integers, []
        spec, arrays = its.checkpoint.spec, its.checkpoint.arrays
        return integers, [float_model.run(spec, arrays, t.ids, t.types) for t in texts[:floats]]

    def predict(
        self, reviews: Iterable[Review], max_tokens: int = MAX_TOKENS, floats: int = 0
    ) -> Iterator[Predicted]:
        """Every text in order, in bounded memory, the first ``floats`` by the float model too.

        Raises TextError, which names the text by its number, where one has no token.
        """
        left = enumerate(reviews, 1)
        while chunk := list(islice(left, CHUNK)):
            encoded = []
            for number, review in chunk:
                try:
                    if review.present:
                        encoded.append(self.tokens(review.content, review.pair, max_tokens))
                except InputError as error:
                    raise TextError(f"text {number}: {error}") from None
            codes, exact = self.run(encoded, floats) if encoded else ([], [])
            floats = max(0, floats - len(encoded))
            rows = zip(encoded, codes, [*exact, *[None] * (len(encoded) - len(exact))], strict=True)
            for number, review in chunk:
                yield Predicted(number, review, *(next(rows) if review.present else ()))

    def finish(
        self, figures: dict[str, Any], json: Path | None, text: str = "", file: TextIO | None = None
    ) -> None:
        """The end of a command: the text or the figures, the proof of calibration, and --json."""
        proof = said(self.info["checkpoint"].get("difference"))
        print(text or shown(figures), proof, sep="\n", file=file or sys.stdout)
        if json:
            files.write_json(json, figures)


def add_options(parser: Parser) -> None:
    """Options that say which model, how long a text is and how its file is read, and --json."""
    add_quantized(parser)
    add_tokens(parser, MAX_TOKENS)
    add_json(parser)
    add_columns(parser)

"""The integer model with its tokenizer, read from the folder of `quant.calibrate`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Self

from cli.errors import UserError

import numpy as np
from numpy.typing import NDArray

from golden import encoder, fast, store
from golden.model import Model
from quant import reader
from quant.calibrate import MAX_TOKENS
from quant.foreign.checkpoint import Checkpoint, fingerprint, load
from quant.foreign.tokenizer import Tokens, encode
from quant.measure.compare import TensorError, answering, compare
from quant.measure.tasks import texts_of
from quant.model import float_model
from quant.model.spec import TASKS, CheckpointError, EncoderSpec, Floats
from quant.quantize import decode, given
from quant.quantize.encoder import Quantized, with_tokens
from quant.reader import Reader
from quant.texts.data_file import Content


@dataclass(frozen=True)
class Outputs:
    """Outputs of some texts, [C] or [L, C] each: golden's of all, the float model's of the first.

    errors: by tensor, over the texts that were traced.
    """

    integers: Sequence[NDArray[np.int64]]
    floats: list[Floats]
    errors: dict[str, TensorError]


@dataclass(frozen=True)
class QuantizedModel:
    """A quantized model with its tokenizer; the float checkpoint beside it where it is there.

    logit_scale: an output of the float model is about this times the integer one, a number or one
    for each output [C]. TASKS: those of which a model must have one to be loaded as this class.
    """

    TASKS: ClassVar[Sequence[str]] = TASKS

    model: Model
    info: dict[str, Any]
    spec: EncoderSpec
    logit_scale: decode.Doubles
    reader: Reader
    checkpoint: Checkpoint | None

    @classmethod
    def load(cls, quantized: Path, model: Path | None, floats: bool = True) -> Self:
        """Without ``model`` the checkpoint that was calibrated is used where it is still there.

        It is known by its hash, and looked for where it was, from the current folder and from those
        above ``quantized``, so that both may have moved together. Without ``floats`` none is looked
        for. Raises UserError naming the folder that cannot be read, where the two do not belong
        together, and where the model is for another task.
        """
        integer_model, info = store.load(quantized)
        with reader.reading(quantized):
            spec = EncoderSpec.from_json(info["spec"])
            scale = decode.scale(info["tensors"]["logits"])
            if floats:
                directory, sha256 = info["checkpoint"]["directory"], info["checkpoint"]["sha256"]
        spec.require(cls.TASKS, quantized)
        its, checkpoint = reader.of_quantized(quantized, info, spec), None
        if floats and model and fingerprint(model) != sha256:
            raise UserError(f"{quantized} was not made from {model}: calibrate again")
        found = model
        if floats and not model:
            several = dict.fromkeys(_places(Path(directory), quantized))
            found = next((place for place in several if _is_of(place, sha256)), None)
        if floats and found:
            checkpoint = load(found, info["checkpoint"].get("task"), its.resolved)
        return cls(integer_model, info, spec, scale, its, checkpoint)

    def require_checkpoint(self) -> Checkpoint:
        """Raises UserError when only the integer model is there."""
        if self.checkpoint is None:
            raise UserError(
                f"the float checkpoint {self.info['checkpoint']['directory']}, which was "
                "calibrated, is gone or has changed: give its folder with --model"
            )
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
        table, numbered = given.gathered(texts)
        if table is None:
            return self, numbered
        checkpoint = self.checkpoint and given.with_table(self.checkpoint, table)
        model = with_tokens(Quantized(self.model, self.info), table).model
        return replace(self, model=model, checkpoint=checkpoint), numbered

    def run(self, texts: Sequence[Tokens], floats: int | None = None, traced: int = 0) -> Outputs:
        """The outputs of some texts: golden's, by the engine that equals it bit for bit, and those
        of the float model, where it is there.

        floats: how many of the texts the float model runs on (None: all). traced: on how many the
        tensors of both models are compared.
        """
        its, texts = self.placed(texts)
        codes = fast.run_batch(its.model, [t.ids for t in texts], [t.types for t in texts])
        integers = texts_of(self.spec, codes.astype(np.int64), texts)
        if self.spec.pooling == "last":
            integers = [rows[-1] for rows in integers]
        result = Outputs(integers, [], {})
        for i, text in enumerate(texts[:floats] if its.checkpoint else ()):
            assert its.checkpoint is not None
            spec, arrays = its.checkpoint.spec, its.checkpoint.arrays
            trace: float_model.Trace | None = {} if i < traced else None
            result.floats.append(float_model.run(spec, arrays, text.ids, text.types, trace=trace))
            if trace is not None:
                codes_of: dict[str, Any] = {}
                encoder.run(its.model, text.ids, text.types, trace=codes_of)
                compare(result.errors, trace, answering(spec, codes_of), self.info["tensors"])
        return result


def run_share(model: QuantizedModel, share: tuple[Sequence[Tokens], int]) -> Outputs:
    """Both models on some texts, of which so many are traced, for `cli.workers.each`."""
    texts, traced = share
    return model.run(texts, traced=traced)


def _places(directory: Path, quantized: Path) -> Iterator[Path]:
    """The checkpoint's path as calibration had it, and its ends in the folders above the model."""
    yield directory
    ends = [directory.parts[i:] for i in range(directory.is_absolute(), len(directory.parts))]
    for end, above in product(ends, quantized.resolve().parents):
        yield above.joinpath(*end)


def _is_of(place: Path, sha256: str) -> bool:
    try:
        return place.is_dir() and fingerprint(place) == sha256
    except (CheckpointError, OSError):
        return False

"""The integer model with its tokenizer, read from the folder of `quant.calibrate`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Self

from cli.errors import UserError

from golden import store
from golden.model import Model
from quant import reader
from quant.calibrate import MAX_TOKENS
from quant.foreign.checkpoint import Checkpoint, fingerprint, load
from quant.foreign.tokenizer import Tokens, encode
from quant.model.spec import TASKS, CheckpointError, EncoderSpec
from quant.quantize import decode, given
from quant.quantize.encoder import Quantized, with_tokens
from quant.reader import Reader
from quant.texts.data_file import Content


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

        It is known by its hash, and looked for where it was, from the folder of the call and from
        those above ``quantized``, so that both may have moved together.
        Without ``floats`` none is looked for.
        Raises ValueError naming the file when one of the two directories cannot be read, when they
        do not belong together, and when the model is for another task.
        """
        integer_model, info = store.load(quantized)
        try:
            spec = EncoderSpec.from_json(info["spec"])
            scale = decode.scale(info["tensors"]["logits"])
            if floats:
                directory, sha256 = info["checkpoint"]["directory"], info["checkpoint"]["sha256"]
        except (KeyError, TypeError) as error:
            raise UserError(
                f"{quantized / store.DESCRIPTION}: its info has no usable {error}; calibrate again"
            ) from None
        except ValueError as error:
            raise UserError(f"{quantized / store.DESCRIPTION}: {error}") from None
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
        """Raises ValueError when only the integer model is there."""
        if self.checkpoint is None:
            raise UserError(
                f"the float checkpoint {self.info['checkpoint']['directory']}, which was "
                "calibrated, is gone or has changed: give its folder with --model"
            )
        return self.checkpoint

    def tokens(
        self, text: Content, pair: str | None = None, max_tokens: int = MAX_TOKENS
    ) -> Tokens:
        """Of a text or its words; of a model with a class for every token with where they begin.

        Of a model of images those of one, its path or the pixels; of one of rows those of a file.
        `placed` gives the model with their rows.
        """
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

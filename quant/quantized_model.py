"""What `quant.calibrate` wrote, read again: the integer model with its tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from golden import store
from golden.model import Model
from quant.calibrate import MAX_TOKENS
from quant.foreign.checkpoint import Checkpoint, fingerprint, load
from quant.foreign.tokenizer import TextTokenizer, Tokens, encode, stored
from quant.model.spec import TASKS, EncoderSpec
from quant.quantize import decode


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
    tokenizer: TextTokenizer
    checkpoint: Checkpoint | None

    @classmethod
    def load(cls, quantized: Path, model: Path | None) -> Self:
        """Without ``model`` the checkpoint that was calibrated is used where it is still there.

        Raises ValueError naming the file when one of the two directories cannot be read, when they
        do not belong together, and when the model is for another task.
        """
        integer_model, info = store.load(quantized)
        try:
            spec = EncoderSpec.from_json(info["spec"])
            scale = decode.scale(info["tensors"]["logits"])
            directory, sha256 = info["checkpoint"]["directory"], info["checkpoint"]["sha256"]
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{quantized / store.DESCRIPTION}: its info has no usable {error}; calibrate again"
            ) from None
        except ValueError as error:
            raise ValueError(f"{quantized / store.DESCRIPTION}: {error}") from None
        spec.require(cls.TASKS, quantized)
        resolved, checkpoint = stored(quantized, info), None
        if model or Path(directory).is_dir():
            if fingerprint(model or directory) == sha256:
                task = info["checkpoint"].get("task")
                checkpoint = load(model or directory, task, resolved)
            elif model:
                raise ValueError(f"{quantized} was not made from {model}: calibrate again")
        return cls(integer_model, info, spec, scale, TextTokenizer(resolved), checkpoint)

    def require_checkpoint(self) -> Checkpoint:
        """Raises ValueError when only the integer model is there."""
        if self.checkpoint is None:
            raise ValueError("the float checkpoint of this quantized model is needed: give --model")
        return self.checkpoint

    def tokens(
        self, text: str | Sequence[str], pair: str | None = None, max_tokens: int = MAX_TOKENS
    ) -> Tokens:
        """Of a text or its words; of a model with a class for every token with where they begin."""
        return encode(self.spec, self.tokenizer, text, pair, max_tokens)

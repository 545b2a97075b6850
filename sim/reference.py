"""Golden's and the float model's results for a text, with which the hardware is compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from golden import encoder
from quant.foreign.tokenizer import Tokens
from quant.measure.compare import answering
from quant.model import float_model
from quant.quantize.quantizers import lsb, twins
from quant.quantized_model import QuantizedModel
from quant.texts.data_file import Review


@dataclass(frozen=True)
class Reference:
    """A text as tokens, with every intermediate of golden and of the float model.

    golden, floats
        Tensors by their names in the trace, `logits` among them; `floats` is None where only the
        quantized model is there.
    """

    text: str
    quantized: QuantizedModel
    tokens: Tokens
    golden: Mapping[str, np.ndarray]
    floats: Mapping[str, np.ndarray] | None

    @cached_property
    def _answering(self) -> dict[str, np.ndarray]:
        return answering(self.quantized.spec, self.golden)

    def twins(self, tensor: str) -> tuple[np.ndarray, np.ndarray] | None:
        """A tensor and its float twin in units of its scale; None where there is no such twin."""
        formats = self.quantized.info["tensors"]
        twin = tensor.removesuffix(".x8") + ".norm" if tensor.endswith(".x8") else tensor
        if self.floats is None or tensor not in formats or twin not in self.floats:
            return None
        values, exact = twins(self._answering[tensor], formats[tensor], self.floats[twin])
        step = lsb(formats[tensor])
        return values / step, exact / step


def reference(quantized: QuantizedModel, text: Review, tokens: int) -> Reference:
    """Golden and, where the checkpoint is there, the float model on at most `tokens` tokens.

    Of an image the quantized model of the Reference has its rows.

    Raises ValueError: The text is empty.
    """
    encoded = quantized.tokens(text.content, text.pair, max_tokens=tokens)
    quantized, (sequence,) = quantized.placed([encoded])
    golden: dict[str, np.ndarray] = {}
    golden["logits"] = encoder.run(quantized.model, sequence.ids, sequence.types, trace=golden)
    floats: dict[str, np.ndarray] | None = None
    if quantized.checkpoint is not None:
        floats = {}
        spec, arrays = quantized.checkpoint.spec, quantized.checkpoint.arrays
        floats["logits"] = float_model.run(spec, arrays, sequence.ids, sequence.types, trace=floats)
    return Reference(text.text, quantized, sequence, golden, floats)

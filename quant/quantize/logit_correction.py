"""The integer model's mean logit error, taken out by the classifier's bias.

Biases of hidden layers are corrected where they are quantized, from the mean of what they read; the
logits' own error can only be seen once the whole integer model has run.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.model import Linear
from quant.quantize import decode
from quant.quantize.encoder import Quantized
from quant.quantize.quantizers import named, rounded


def correct_logits(
    quantized: Quantized, logits: NDArray[np.integer[Any]], exact: NDArray[np.floating[Any]]
) -> Quantized:
    """The same model without its mean logit error, which moves into the classifier's bias.

    logits: its integer logits [n, C] on some texts; exact: the float model's on the same.
    """
    model, scale = quantized.model, decode.scale(quantized.info["tensors"]["logits"])
    error = rounded((logits - exact / scale).mean(axis=0)).astype(np.int32)
    last = model.head[-1]
    name = f"head.{len(model.head) - 1}"
    corrected = named(name, Linear, weight=last.weight, bias=last.bias - error)
    weight = np.abs(last.weight.astype(np.int64)).sum(axis=1)
    bound = int((128 * weight + np.abs(corrected.bias)).max())
    info = quantized.info | {
        "proof": quantized.info["proof"] | {name: {"bound": bound, "limit": 2**31}},
        "logit_correction": (-error).tolist(),
    }
    return Quantized(replace(model, head=(*model.head[:-1], corrected)), info)

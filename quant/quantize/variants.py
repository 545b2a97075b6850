"""Variants of the integer encoder that the contract decided against, simulated for the ablation.

The encoder below is golden's, function by function, with two places where a width can be changed;
a test holds its default equal to golden.encoder.run. Variants are measured here, so that the
specification stays free of switches.
"""

from dataclasses import dataclass

from cli.errors import UserError

import numpy as np

from golden.attention import join_heads, split_heads
from golden.embedding import embed
from golden.encoder import PROJECTION_SHIFT, check_input, feed_forward, pool
from golden.layernorm import layernorm
from golden.linear import accumulate, in_stream, linear, linear16, operand, residual
from golden.matmul import matmul
from golden.model import Model
from golden.position_bias import add_position_bias
from golden.requantize import requantize, saturate
from golden.rotary import rotate
from golden.softmax import row_scale, softmax
from golden.window import in_window
from quant.foreign.tokenizer import Tokens

SOFTMAXES = ("unnormalised 8", "normalised 8", "unnormalised 16")


@dataclass(frozen=True)
class Variant:
    """residual_bits: 16, or 8 for a residual stream of the int8 operands alone.

    softmax: "unnormalised 8" is the contract's p; "normalised 8" divides p by its sum and rounds to
    8 bits before the product with V; "unnormalised 16" gives p 16 bits.
    """

    residual_bits: int = 16
    softmax: str = SOFTMAXES[0]

    def __post_init__(self) -> None:
        if self.residual_bits not in (8, 16):
            raise UserError(f"residual_bits is {self.residual_bits}: it must be 8 or 16")
        if self.softmax not in SOFTMAXES:
            raise UserError(f"softmax is {self.softmax!r}: one of {', '.join(SOFTMAXES)}")


def run(model: Model, tokens: Tokens, variant: Variant) -> np.ndarray:
    """Logits int32 [C] of one text."""
    ids, types, attend = check_input(model, tokens.ids, tokens.types, None)
    shape = model.shape

    def narrow(x16: np.ndarray) -> np.ndarray:
        return x16 if variant.residual_bits == 16 else operand(x16).astype(np.int16) << 8

    x = narrow(embed(ids, types, model.embedding, shape.position_offset))
    if model.embedding.norm is not None:
        x = narrow(layernorm(x, model.embedding.norm))
        x8 = operand(x, model.embedding.norm.operand_shifts)
    for i, layer in enumerate(model.layers):
        if shape.norm == "pre" and layer.norm1 is not None:
            x8 = operand(layernorm(x, layer.norm1), layer.norm1.operand_shifts)
        context = attention(x8, i, model, attend, variant.softmax)
        x = narrow(residual(x, context, layer.attention.o, layer.attention.residual_shift))
        if shape.norm == "pre" or layer.norm1 is None:
            x8 = operand(layernorm(x, layer.norm2), layer.norm2.operand_shifts)
        else:
            x = narrow(layernorm(x, layer.norm1))
            x8 = operand(x, layer.norm1.operand_shifts)
        x = narrow(feed_forward(x, x8, layer, None, ""))
        if shape.norm == "post":
            x = narrow(layernorm(x, layer.norm2))
            x8 = operand(x, layer.norm2.operand_shifts)
    if model.final_norm is not None:
        x8 = operand(layernorm(x, model.final_norm), model.final_norm.operand_shifts)
    y = pool(x8, attend, model)
    for hidden in model.head[:-1]:
        y = linear(y, hidden)
    if model.head_norm is not None:
        row = x if shape.pooling == "none" else x[0]
        z = residual(row, y, in_stream(shape.hidden), PROJECTION_SHIFT)
        y = operand(layernorm(z, model.head_norm), model.head_norm.operand_shifts)
    return accumulate(y, model.head[-1])


def attention(
    x8: np.ndarray, number: int, model: Model, attend: np.ndarray, kind: str
) -> np.ndarray:
    """golden.attention.attention with the softmax of the variant; int8 [L, heads * d]."""
    layer, shape, rotary = model.layers[number], model.shape, model.rotary_of(number)
    parameters, attend = layer.attention, attend & in_window(layer.window, len(x8))
    q, k = (
        linear(x8, p) if rotary is None else rotate(linear16(x8, p), rotary, shape.head_size)
        for p in (parameters.q, parameters.k)
    )
    groups = shape.kv_heads or shape.heads
    q = split_heads(q, shape.heads)
    k, v = (
        np.tile(split_heads(x, groups), (shape.heads // groups, 1, 1))
        for x in (k, linear(x8, parameters.v))
    )
    scores = requantize(
        matmul(q, k.swapaxes(1, 2)), parameters.score_m, parameters.score_s, 16
    )  # [heads, L, L]
    if model.position_bias is not None:
        scores = add_position_bias(scores, model.position_bias)
    p, row_max, row_sum = softmax(scores, attend)
    if kind == SOFTMAXES[0]:
        m, s = row_scale(row_sum, parameters.context_m, parameters.context_s)
        return join_heads(requantize(matmul(p, v), m[..., None], s[..., None]))
    if kind == "normalised 8":
        weights = np.floor(255.0 * p / row_sum[..., None] + 0.5)  # rows sum to about 255
        total = np.float64(255)
    else:
        distance = row_max[..., None].astype(np.float64) - scores
        weights = np.where(attend, np.floor(65535 * np.exp2(-distance / 256) + 0.5), 0)
        total = weights.sum(axis=-1, keepdims=True)
    factor = parameters.context_m * 2.0**-parameters.context_s / total
    return join_heads(saturate(np.floor(weights @ v * factor + 0.5), 8).astype(np.int8))

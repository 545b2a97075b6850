"""Multi-head self-attention (Vaswani et al., 2017) on int8 activations."""

import numpy as np

from golden.linear import linear, linear16
from golden.matmul import matmul
from golden.model import Linear, Model
from golden.position_bias import add_position_bias
from golden.requantize import requantize
from golden.rotary import rotate
from golden.softmax import row_scale, softmax
from golden.trace import Show, unseen
from golden.window import in_window


def attention(
    x8: np.ndarray, model: Model, i: int, attend: np.ndarray, show: Show = unseen
) -> np.ndarray:
    """context = softmax(q k^T / sqrt(d) + position_bias) v of every head, heads side by side.

    Layer i of the model; x8 int8 [L, H], attend bool [L] (the valid keys). A query sees the valid
    keys of the window, all without one; of a query that sees none the context is 0. With rotary
    positions q and k are turned by theirs. Head h of q has head h mod kv_heads of k and v, where
    these are fewer. Returns int8 [L, heads * d]; the output projection belongs to the residual
    addition. Shown are layer.i.q, .k, .v, .scores (with the bias), .max, .p, .sum, .row_m, .row_s.
    """
    shape, layer, rotary, name = model.shape, model.layers[i], model.rotary_of(i), f"layer.{i}"
    its, heads, groups = layer.attention, shape.heads, shape.kv_heads or shape.heads

    def turned(of: Linear) -> np.ndarray:
        return (
            linear(x8, of) if rotary is None else rotate(linear16(x8, of), rotary, shape.head_size)
        )

    q, k, v = turned(its.q), turned(its.k), linear(x8, its.v)
    for letter, x in zip("qkv", (q, k, v)):
        show(f"{name}.{letter}", x)
    of_head = np.arange(heads) % groups
    q = split_heads(q, heads)
    k, v = (split_heads(x, groups)[of_head] for x in (k, v))

    acc = matmul(q, k.swapaxes(1, 2))  # [heads, L, L]
    scores = requantize(acc, its.score_m, its.score_s, 16)
    if model.position_bias is not None:
        scores = add_position_bias(scores, model.position_bias)
    p, row_max, row_sum = softmax(scores, attend & in_window(layer.window, len(x8)))
    row_m, row_s = row_scale(row_sum, its.context_m, its.context_s)
    context = requantize(matmul(p, v), row_m[..., None], row_s[..., None])  # [heads, L, d]
    shown = {"scores": scores, "max": row_max, "p": p, "sum": row_sum}
    for part, value in (shown | {"row_m": row_m, "row_s": row_s}).items():
        show(f"{name}.{part}", value)
    return join_heads(context)


def split_heads(x: np.ndarray, heads: int) -> np.ndarray:
    """[L, heads * d] to [heads, L, d]."""
    return x.reshape(x.shape[0], heads, -1).swapaxes(0, 1)


def join_heads(x: np.ndarray) -> np.ndarray:
    """[heads, L, d] to [L, heads * d]."""
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)

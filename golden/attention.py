"""Multi-head self-attention (Vaswani et al., 2017) on int8 activations."""

import numpy as np

from golden.linear import linear, linear16
from golden.matmul import matmul
from golden.model import Attention, Linear, Rotary, Window
from golden.position_bias import add_position_bias
from golden.requantize import requantize
from golden.rotary import rotate
from golden.softmax import row_scale, softmax
from golden.trace import Trace, record
from golden.window import in_window


def attention(
    x8: np.ndarray,
    parameters: Attention,
    heads: int,
    attend: np.ndarray,
    trace: Trace = None,
    name: str = "attention",
    position_bias: np.ndarray | None = None,
    window: Window | None = None,
    rotary: Rotary | None = None,
    kv_heads: int | None = None,
) -> np.ndarray:
    """context = softmax(q k^T / sqrt(d) + position_bias) v of every head, heads side by side.

    x8 int8 [L, H], attend bool [L] (the valid keys), position_bias int16 [heads, 2 T - 1], or None
    without one. A query sees the valid keys of the window, all without one; of a query that sees
    none the context is 0. With rotary q and k are turned by their positions. Head h of q has head
    h mod kv_heads of k and v, where these are fewer. Returns int8 [L, heads * d]; the output
    projection belongs to the residual addition. Intermediates are recorded as name.q, .k, .v,
    .scores (with the bias), .max, .p, .sum, .row_m, .row_s and .context.
    """
    size = len(parameters.q.weight) // heads

    def turned(layer: Linear) -> np.ndarray:
        return linear(x8, layer) if rotary is None else rotate(linear16(x8, layer), rotary, size)

    q = record(trace, f"{name}.q", turned(parameters.q))
    k = record(trace, f"{name}.k", turned(parameters.k))
    v = record(trace, f"{name}.v", linear(x8, parameters.v))
    groups = kv_heads or heads
    of_head = np.arange(heads) % groups
    q = split_heads(q, heads)
    k, v = (split_heads(x, groups)[of_head] for x in (k, v))

    acc = matmul(q, k.swapaxes(1, 2))  # [heads, L, L]
    scores = requantize(acc, parameters.score_m, parameters.score_s, 16)
    if position_bias is not None:
        scores = add_position_bias(scores, position_bias)
    record(trace, f"{name}.scores", scores)

    p, row_max, row_sum = softmax(scores, attend & in_window(window, len(x8)))
    record(trace, f"{name}.max", row_max)
    record(trace, f"{name}.p", p)
    record(trace, f"{name}.sum", row_sum)

    row_m, row_s = row_scale(row_sum, parameters.context_m, parameters.context_s)
    record(trace, f"{name}.row_m", row_m)
    record(trace, f"{name}.row_s", row_s)

    context = requantize(matmul(p, v), row_m[..., None], row_s[..., None])  # [heads, L, d]
    return record(trace, f"{name}.context", join_heads(context))


def split_heads(x: np.ndarray, heads: int) -> np.ndarray:
    """[L, heads * d] to [heads, L, d]."""
    return x.reshape(x.shape[0], heads, -1).swapaxes(0, 1)


def join_heads(x: np.ndarray) -> np.ndarray:
    """[heads, L, d] to [L, heads * d]."""
    return x.swapaxes(0, 1).reshape(x.shape[1], -1)

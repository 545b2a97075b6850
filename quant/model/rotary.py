"""Rotary positions in float, and the orders of channels and heads that golden takes.

Su et al., "RoFormer" (2021): column i of a table turns a pair of channels of every head of Q and K
by position times frequency. Checkpoints pair channels i and i + d / 2; here a pair is two
neighbours, which changes no score.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant.model.spec import Arrays, Floats


def rotate(x: Floats, cos: Floats, sin: Floats) -> Floats:
    """x [L, heads * d] with its pairs turned; row t of cos and sin [L, d / 2] is of token t."""
    pairs = x.reshape(len(x), -1, cos.shape[1], 2)
    a, b = pairs[..., 0], pairs[..., 1]
    cos, sin = cos[:, None], sin[:, None]
    return np.stack((a * cos - b * sin, b * cos + a * sin), axis=-1).reshape(x.shape)


def tables(frequencies: NDArray[np.floating[Any]], tokens: int) -> tuple[Floats, Floats]:
    """(cos, sin) float32 [tokens, pairs]. Angles are float32, as transformers has them."""
    angles = np.arange(tokens, dtype=np.float32)[:, None] * frequencies.astype(np.float32)
    cos, sin = np.cos(angles.astype(np.float64)), np.sin(angles.astype(np.float64))
    return cos.astype(np.float32), sin.astype(np.float32)


def neighbours(arrays: Arrays, layer: str, head_size: int) -> None:
    """Put the pairs (i, i + d / 2) of each head of Q and K side by side."""
    order = np.arange(head_size).reshape(2, -1).T.ravel()
    for name in (f"{layer}.{key}.{part}" for key in "qk" for part in ("weight", "bias")):
        x = arrays[name]
        arrays[name] = x.reshape(-1, head_size, *x.shape[1:])[:, order].reshape(x.shape)


def shared(arrays: Arrays, layer: str, heads: int, kv_heads: int) -> None:
    """Put the heads of Q, and the columns of O, in another order.

    Heads h of a checkpoint's Q have head h // (heads / kv_heads) of K and V; here h mod kv_heads.
    """
    order = np.arange(heads).reshape(kv_heads, -1).T.ravel()
    for name in (f"{layer}.q.weight", f"{layer}.q.bias"):
        x = arrays[name]
        arrays[name] = x.reshape(heads, -1, *x.shape[1:])[order].reshape(x.shape)
    o = arrays[f"{layer}.o.weight"]
    arrays[f"{layer}.o.weight"] = o.reshape(len(o), heads, -1)[:, order].reshape(o.shape)

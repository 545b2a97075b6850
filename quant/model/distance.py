"""What scores depend on by the distance of query and key alone: relative biases, and windows.

    scores[h, q, k] = q k^T / sqrt(d) + bias[h, k - q + T - 1]        |k - q| < T

A bias is one array float32 [heads, 2 T - 1] for all layers, T the longest sequence in tokens; a
window says which keys a query sees (golden.window).
"""

from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.model import Window
from golden.window import in_window

BIAS = "attention.bias"
"""The array's name (quant.model.spec)."""
CAUSAL = Window(None, 0)
"""A query sees its own key and those before it."""

Windows = tuple[Window | None, ...]
"""Of each layer; () where no layer has one."""


def differences(tokens: int) -> NDArray[np.int64]:
    """k - q of each column [2 T - 1]."""
    return np.arange(1 - tokens, tokens)


def buckets(difference: NDArray[np.int64], count: int, furthest: int) -> NDArray[np.int64]:
    """The bucket of each difference k - q, of T5 and MPNet, which look both ways.

    Half of the `count` buckets are for keys behind the query. Of each half, the first half has a
    bucket for each distance; the others grow by one factor up to the distance `furthest`, from
    which on it is the last (Raffel et al., "Exploring the limits of transfer learning", 2020).
    In float32, as the library computes it.
    """
    half = count // 2
    exact = half // 2
    distance = np.abs(difference)
    ratio = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
    grown = ratio / np.float32(log(furthest / exact)) * np.float32(half - exact)
    far = np.minimum(exact + grown.astype(np.int64), half - 1)
    return np.where(distance < exact, distance, far) + half * (difference > 0)


def bucketed(table: Any, tokens: int, furthest: int) -> NDArray[np.float32]:
    """The bias [heads, 2 T - 1] of a table [buckets, heads]."""
    columns = table[buckets(differences(tokens), len(table), furthest)]
    return np.ascontiguousarray(columns.T, np.float32)


def slopes(heads: int) -> NDArray[np.float64]:
    """ALiBi's: 2^(-8 i / n) for i from 1 to n where there are n = 2^j heads; of other numbers the
    largest such n's, then every other one of 2 n's (Press et al., "Train short, test long", 2022).
    """
    power = 1 << (heads.bit_length() - 1)
    first, second = (2.0 ** (-8 * np.arange(1, n + 1) / n) for n in (power, 2 * power))
    return np.concatenate([first, second[::2]])[:heads]


def alibi(heads: int, tokens: int) -> NDArray[np.float32]:
    """-slope |k - q| [heads, 2 T - 1], of an encoder, which looks both ways."""
    return np.outer(slopes(heads), -np.abs(differences(tokens))).astype(np.float32)


def cut(bias: NDArray[Any], tokens: int) -> NDArray[Any]:
    """The columns of sequences of `tokens` tokens."""
    away = bias.shape[1] // 2 + 1 - tokens
    return bias[:, away : bias.shape[1] - away]


def square(bias: NDArray[Any], length: int) -> NDArray[Any]:
    """The bias of each query and key of a sequence [heads, L, L]."""
    places = np.arange(length)
    return bias[:, places - places[:, None] + bias.shape[1] // 2]


def within(scores: NDArray[Any], window: Window | None) -> NDArray[Any]:
    """Scores [heads, L, L] with those that a query does not see replaced by that of its own key."""
    if window is None:
        return scores
    own = np.diagonal(scores, axis1=-2, axis2=-1)[..., None]
    return np.where(in_window(window, scores.shape[-1]), scores, own)


def said(windows: Windows) -> str:
    """The windows in words: "layers 0, 2: 3 keys before and 0 behind"; "" where there is none."""
    parts = []
    for window in dict.fromkeys(windows):
        places = [str(i) for i, one in enumerate(windows) if one == window]
        alone = len(places) == len(windows)
        layers = f"layer{'s' if len(places) > 1 else ''} {', '.join(places)}"
        parts.append(f"{'all layers' if alone else layers}: {_said(window)}")
    return "; ".join(parts)


def _said(window: Window | None) -> str:
    if window is None:
        return "every key"
    if window == CAUSAL:
        return "keys up to the query's own"
    sides = ("any" if side is None else str(side) for side in (window.before, window.after))
    return "{} keys before and {} behind the query's own".format(*sides)

"""Relative position biases: a number for each head and difference of two positions.

    scores[h, q, k] = q k^T / sqrt(d) + bias[h, k - q + T - 1]        |k - q| < T

One array float32 [heads, 2 T - 1] for all layers, T the longest sequence in tokens.
"""

from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

BIAS = "attention.bias"
"""The array's name (quant.model.spec)."""


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
    found: NDArray[np.int64] = np.where(distance < exact, distance, far) + half * (difference > 0)
    return found


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
    found: NDArray[Any] = bias[:, places - places[:, None] + bias.shape[1] // 2]
    return found

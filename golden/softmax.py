"""Softmax to the base 2, left unnormalised; the row's sum is divided out in the context."""

from math import isqrt

import numpy as np

from golden.reciprocal import reciprocal
from golden.requantize import round_shift


def _exp2_entry(f: int) -> int:
    """round(65280 * 2^(-f/256)): eight nested integer square roots are one exact 256th root."""
    doubled = (2 * 65280) ** 256 >> f
    for _ in range(8):
        doubled = isqrt(doubled)
    return (doubled + 1) >> 1


# T[f] = round(65280 * 2^(-f/256)), 65280 = 255 * 2^8.
EXP2_TABLE = np.array([_exp2_entry(f) for f in range(256)], dtype=np.int64)


def softmax(scores: np.ndarray, attend: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights p = 255 * 2^((score - max)/256) of each row, rounded to uint8, not normalised.

        d = max - score                              max over the valid keys
        p = (T[d & 255] + 2^(i+7)) >> (i+8)          i = d >> 8; 0 for a key that is not valid

    scores int16 [..., keys] in 1/256 octaves, attend bool broadcast against it. Returns p uint8
    [..., keys], the row's max int16 [...] and the row's sum of p int32 [...]. The largest weight of
    a row is 255 exactly, so 255 <= sum; a row without a valid key has the max -32768 and the sum 0.
    """
    attend = np.broadcast_to(attend, scores.shape)
    row_max = np.max(scores, axis=-1, where=attend, initial=-32768)
    d = np.where(attend, row_max[..., None].astype(np.int64) - scores, 0)
    i = np.minimum(d >> 8, 9)  # T < 2^16, so p is 0 from i = 9 on
    p = np.where(attend, round_shift(EXP2_TABLE[d & 255], i + 8), 0).astype(np.uint8)
    return p, row_max, p.sum(axis=-1, dtype=np.int32)


def row_scale(
    row_sum: np.ndarray, m: np.ndarray | int, s: np.ndarray | int
) -> tuple[np.ndarray, np.ndarray]:
    """The multiplier of a row's context: m * 2^-s / row_sum as a normalised (m_row, s_row).

    row_sum integers, 0 <= row_sum < 2^21, where 0 counts as 2^20; (m, s) the multiplier of the
    tensor. Returns int32 arrays, 2^15 <= m_row < 2^16, s_row = s + 16 + e - adj of
    docs/numerics.md section 6.
    """
    empty = np.asarray(row_sum) == 0
    r, e = reciprocal(np.where(empty, 1, row_sum))
    e = np.where(empty, 20, e)
    product = r * m
    adj = np.where(product >= 1 << 31, 16, 15)
    m_row = round_shift(product, adj)
    carried = m_row == 1 << 16
    m_row = np.where(carried, 1 << 15, m_row)
    s_row = s + 16 + e - adj - carried
    return m_row.astype(np.int32), s_row.astype(np.int32)

"""Relative position bias of the scores (Shaw et al., 2018; Raffel et al., 2020, buckets).

ALiBi (Press et al., 2022) is the same with other values.
"""

import numpy as np

from golden.requantize import saturate


def add_position_bias(scores: np.ndarray, table: np.ndarray) -> np.ndarray:
    """saturate(scores[h, q, k] + table[h, k - q + T - 1], 16): of each head, by k - q alone.

    scores int16 [heads, L, L], table int16 [heads, 2 T - 1], both in 1/256 octaves, L <= T. The sum
    of two int16 is an int17 exactly. Returns int16 [heads, L, L].
    """
    tokens = np.arange(scores.shape[-1])
    column = tokens[None, :] - tokens[:, None] + table.shape[1] // 2  # [L, L]
    return saturate(scores.astype(np.int64) + table[:, column], 16).astype(np.int16)

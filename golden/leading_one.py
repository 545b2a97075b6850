"""The position of the leading one, by which reciprocal and rsqrt normalise their operand."""

import numpy as np


def leading_one(x: np.ndarray) -> np.ndarray:
    """e = bit_length(x) - 1, the index of the highest set bit; 1 <= x < 2^62, int64."""
    rest = np.array(x, dtype=np.int64)
    e = np.zeros_like(rest)
    for step in (32, 16, 8, 4, 2, 1):
        large = (rest >> step) > 0
        e += np.where(large, step, 0)
        rest = np.where(large, rest >> step, rest)
    return e

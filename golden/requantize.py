"""The one rounding rule: integers are scaled, rounded and saturated here and nowhere else."""

import numpy as np

DTYPES = {8: np.int8, 16: np.int16}

MULTIPLIER_MIN = 1 << 15
MULTIPLIER_MAX = (1 << 16) - 1
SHIFT_MIN = 1
SHIFT_MAX = 47


def saturate(x: np.ndarray, bits: int) -> np.ndarray:
    """Limit x to the range of a signed integer of `bits` bits.

        y = min(max(x, -2^(bits-1)), 2^(bits-1) - 1)

    The dtype stays that of x; the caller names the one it stores.
    """
    limit = 1 << (bits - 1)
    return np.clip(x, -limit, limit - 1)


def round_shift(x: np.ndarray, shift: np.ndarray | int) -> np.ndarray:
    """Divide by 2^shift and round to the nearest integer, ties towards plus infinity.

        y = (x + 2^(shift-1)) >> shift        shift >= 1
        y = x                                 shift = 0

    x is any integer array of at most 62 bits; the result is int64.
    """
    shift = np.asarray(shift, dtype=np.int64)
    half = np.left_shift(np.int64(1), shift) >> 1
    return np.right_shift(np.asarray(x, dtype=np.int64) + half, shift)


def requantize(
    acc: np.ndarray, m: np.ndarray | int, s: np.ndarray | int, bits: int = 8
) -> np.ndarray:
    """Scale an accumulator to an int8 or int16 by the factor m * 2^-s.

        y = saturate((acc * m + 2^(s-1)) >> s, bits)

    acc is int32, m a normalised multiplier (2^15 <= m < 2^16) and 1 <= s <= 47, both broadcast
    against acc. m = 2^15, s = 15 is the identity. `acc * m` fits 48 bits.
    """
    product = np.asarray(acc, dtype=np.int64) * np.asarray(m, dtype=np.int64)
    return saturate(round_shift(product, s), bits).astype(DTYPES[bits])

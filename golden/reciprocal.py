"""1 / S for the sums of the softmax: a table of 128 entries and one step of Newton's method."""

import numpy as np

from golden.leading_one import leading_one

# R[j] = round(2^20 / (257 + 2j)), the reciprocal of each interval's centre with 12 fraction bits.
TABLE = np.array([((1 << 21) // (257 + 2 * j) + 1) >> 1 for j in range(128)], dtype=np.int64)


def reciprocal(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1/s = r * 2^-(16+e) within 2^-15 of relative error; a normalised mantissa and an exponent.

    s is an integer array, 1 <= s < 2^21. Returns r, 2^15 <= r < 2^16, and e = floor(log2 s),
    both int64 of the shape of s.

        u   = (s << 19) >> e                         x = u / 2^19 in [1, 2)
        y0  = R[(u >> 12) & 127]                     first estimate of 1/x at 2^12
        e25 = (2^31 - u * y0) >> 6                   Newton's residual 1 - x*y0 at 2^25
        r   = min((y0 * 2^25 + y0 * e25 + 2^20) >> 21, 65535)
    """
    e = leading_one(s)
    u = (np.asarray(s, dtype=np.int64) << 19) >> e
    y0 = TABLE[(u >> 12) & 127]
    e25 = ((1 << 31) - u * y0) >> 6
    r = ((y0 << 25) + y0 * e25 + (1 << 20)) >> 21
    return np.minimum(r, 65535), e

"""1 / sqrt(V) for LayerNorm: a table of 256 entries and one step of Newton's method."""

from math import isqrt

import numpy as np

from golden.leading_one import leading_one

# Q[j] = round(2^12 / sqrt(c)) at each interval's centre c: (257 + 2j)/256 for x in [1, 2),
# (257 + 2(j - 128))/128 for x in [2, 4). Twice the value is isqrt(2^26 / c), exactly floored.
TABLE = np.array(
    [(isqrt((1 << 34) // (257 + 2 * j)) + 1) >> 1 for j in range(128)]
    + [(isqrt((1 << 33) // (257 + 2 * j)) + 1) >> 1 for j in range(128)],
    dtype=np.int64,
)


def rsqrt(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1/sqrt(v) = r * 2^-(16+e) within 2^-15 of relative error.

    v is an integer array, 1 <= v < 2^52. Returns r, 2^15 <= r < 2^16, and e = floor(log4 v), both
    int64 of the shape of v.

        u   = floor(v * 2^16 / 4^e)                  x = u / 2^16 in [1, 4)
        y0  = Q[j]                                   first estimate of 1/sqrt(x) at 2^12
        e24 = (2^40 - u * y0^2) >> 16                Newton's residual 1 - x*y0^2 at 2^24
        r   = min((y0 * 2^25 + y0 * e24 + 2^20) >> 21, 65535)
    """
    v = np.asarray(v, dtype=np.int64)
    e = leading_one(v) >> 1
    u = (v << np.maximum(16 - 2 * e, 0)) >> np.maximum(2 * e - 16, 0)
    j = np.where(u < 1 << 17, (u >> 9) & 127, 128 + ((u >> 10) & 127))
    y0 = TABLE[j]
    e24 = ((1 << 40) - u * y0 * y0) >> 16
    r = ((y0 << 25) + y0 * e24 + (1 << 20)) >> 21
    return np.minimum(r, 65535), e

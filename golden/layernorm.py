"""Layer normalisation (Ba, Kiros and Hinton, 2016) without a division: sums, one rsqrt a token."""

import numpy as np

from golden.model import Norm
from golden.requantize import round_shift, saturate
from golden.rsqrt import rsqrt


def layernorm(z: np.ndarray, norm: Norm) -> np.ndarray:
    """y = (z - mean) / sqrt(variance + eps) * gamma + beta over the last axis.

        S1 = sum z,  S2 = sum z^2,  V = H * S2 - S1^2 + E
        (r, e) = rsqrt(V)
        n = round_shift((H * z - S1) * r, e + 4)     12 fraction bits, |n| < 2^17
        y = saturate(round_shift(n * gamma + beta, shift), 16)

    Of an RMSNorm (Zhang and Sennrich, 2019) S1 is taken as 0.
    z int16 [..., H], H <= 1024; returns int16 of the same shape.
    """
    z = z.astype(np.int64)
    hidden = z.shape[-1]
    s1 = np.int64(0) if norm.rms else z.sum(axis=-1, keepdims=True)
    s2 = (z * z).sum(axis=-1, keepdims=True)
    v = hidden * s2 - s1 * s1 + norm.epsilon
    r, e = rsqrt(v)
    n = round_shift((hidden * z - s1) * r, e + 4)
    y = round_shift(n * norm.gamma + norm.beta, norm.shift)
    return saturate(y, 16).astype(np.int16)

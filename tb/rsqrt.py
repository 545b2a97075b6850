"""Cases of the rsqrt bench."""

import numpy as np

from golden.rsqrt import rsqrt


def cases(seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Powers of two with their neighbours, all table entries at both ends, every magnitude."""
    rng = np.random.default_rng(seed)
    powers = 1 << np.arange(52)
    ends = np.concatenate([np.arange(128, 256) << 9, np.arange(128, 256) << 10])
    values = np.concatenate(
        [powers, powers - 1, powers + 1, ends, ends - 1, ends << 34, (ends << 34) - 1]
        + [np.arange(1, 300)]
        + [rng.integers(1, 1 << bits, 25) for bits in range(9, 53)]
    )
    values = values[(values > 0) & (values < 1 << 52)]
    return {"i": values}, dict(zip("re", rsqrt(values)))


def every_mantissa() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """All u of 17 and 18 bits with the highest set: shifted least, and by any exponent.

    What lies below u is noise the second time.
    """
    u = np.arange(1 << 16, 1 << 18)
    rng = np.random.default_rng(1)
    below = 2 * rng.integers(0, 18, u.size)
    noise = rng.integers(0, 1 << 34, u.size) & (1 << below) - 1
    values = np.concatenate([u << 34, u << below | noise])
    return {"i": values}, dict(zip("re", rsqrt(values)))

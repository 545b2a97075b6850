"""Cases of the reciprocal bench."""

import numpy as np

from golden.reciprocal import reciprocal


def cases(seed: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Powers of two with their neighbours, all table entries at both ends, every magnitude."""
    rng = np.random.default_rng(seed)
    powers = 1 << np.arange(20)
    ends = np.arange(128, 256) << 12
    values = np.concatenate(
        [powers, powers - 1, powers + 1, ends, ends + 4095, np.arange(1, 600)]
        + [rng.integers(1, 1 << bits, 100) for bits in range(10, 21)]
    )
    values = values[(values > 0) & (values < 1 << 20)]
    return {"i": values}, dict(zip("re", reciprocal(values)))


def every_value() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """All operands."""
    values = np.arange(1, 1 << 20)
    return {"i": values}, dict(zip("re", reciprocal(values)))

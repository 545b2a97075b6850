"""Reciprocal against golden.reciprocal."""

import numpy as np

from golden.reciprocal import reciprocal
from rtl.reciprocal import Reciprocal
from tb.pipelined import run_pipelined


def test_equals_golden() -> None:
    """Every power of two with its neighbours, every table entry at both ends, and random values."""
    rng = np.random.default_rng(2)
    powers = 1 << np.arange(20)
    ends = np.arange(128, 256) << 12
    cases = np.concatenate(
        [powers, powers - 1, powers + 1, ends, ends + 4095, np.arange(1, 2048)]
        + [rng.integers(1, 1 << bits, 300) for bits in range(12, 21)]
    )
    cases = cases[(cases > 0) & (cases < 1 << 20)]
    rtl = run_pipelined(Reciprocal(), {"i": cases}, ("r", "e"))
    r, e = reciprocal(cases)
    np.testing.assert_array_equal(rtl["r"], r)
    np.testing.assert_array_equal(rtl["e"], e)

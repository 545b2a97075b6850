"""Rsqrt against golden.rsqrt."""

import numpy as np

from golden.rsqrt import rsqrt
from rtl.rsqrt import Rsqrt
from tb.pipelined import run_pipelined


def test_equals_golden() -> None:
    """Powers of two with their neighbours, all table entries at both ends, every magnitude."""
    rng = np.random.default_rng(3)
    powers = 1 << np.arange(52)
    ends = np.concatenate([np.arange(128, 256) << 9, np.arange(128, 256) << 10])
    cases = np.concatenate(
        [powers, powers - 1, powers + 1, ends, ends - 1, ends << 34, (ends << 34) - 1]
        + [np.arange(1, 600)]
        + [rng.integers(1, 1 << bits, 80) for bits in range(10, 53)]
    )
    cases = cases[(cases > 0) & (cases < 1 << 52)]
    rtl = run_pipelined(Rsqrt(), {"i": cases}, ("r", "e"))
    r, e = rsqrt(cases)
    np.testing.assert_array_equal(rtl["r"], r)
    np.testing.assert_array_equal(rtl["e"], e)

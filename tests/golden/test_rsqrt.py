import numpy as np
import pytest

from golden.rsqrt import TABLE, rsqrt
from tests.golden.reference import RSQRT, ref_rsqrt

EVERY_MANTISSA = range(1 << 16, 1 << 18)


def within_bound(v: int, r: int, e: int) -> bool:
    """|r * sqrt(v) * 2^-(16+e) - 1| <= 2^-15, squared and cleared of fractions."""
    scaled = r * r * v << 30
    one = 4 ** (16 + e)
    return (2**15 - 1) ** 2 * one <= scaled <= (2**15 + 1) ** 2 * one


def test_table_is_the_rounded_root_of_each_centre() -> None:
    assert TABLE.tolist() == RSQRT
    assert TABLE.min() >= 1 << 11
    assert TABLE.max() < 1 << 12


@pytest.mark.parametrize("e", [0, 4, 8, 12, 25])
def test_every_mantissa_is_within_the_bound(e: int) -> None:
    """Both ends of the interval of V that shares a mantissa, for all mantissas."""
    low = [u * 4**e >> 16 for u in EVERY_MANTISSA]
    high = [max(((u + 1) * 4**e - 1) >> 16, v) for u, v in zip(EVERY_MANTISSA, low)]
    for values in (low, high):
        values = sorted(set(values) - {0})
        r, exponent = rsqrt(np.array(values))
        assert (exponent == e).all()
        assert r.min() >= 1 << 15
        assert r.max() < 1 << 16
        bad = [v for v, m in zip(values, r.tolist()) if not within_bound(v, m, e)]
        assert not bad


def test_every_mantissa_equals_the_reference() -> None:
    values = np.array(EVERY_MANTISSA)
    assert rsqrt(values)[0].tolist() == [ref_rsqrt(v)[0] for v in values.tolist()]


def test_random_values_of_every_size_equal_the_reference() -> None:
    rng = np.random.default_rng(0)
    values = (rng.integers(1, 1 << 52, 20_000) >> rng.integers(0, 52, 20_000)) | 1
    r, e = rsqrt(values)
    expected = [ref_rsqrt(v) for v in values.tolist()]
    assert list(zip(r.tolist(), e.tolist())) == expected

import numpy as np

from golden.reciprocal import TABLE, reciprocal
from tests.golden.reference import RECIPROCAL, ref_reciprocal

EVERY_SUM = np.arange(1, 1 << 21)


def test_table_is_the_rounded_reciprocal_of_each_centre() -> None:
    assert TABLE.tolist() == RECIPROCAL
    assert TABLE.min() >= 1 << 11
    assert TABLE.max() < 1 << 12


def test_every_sum_is_within_the_bound() -> None:
    """|r * S * 2^-(16+e) - 1| <= 2^-15 in exact integers, over all 2^21 - 1 sums."""
    r, e = reciprocal(EVERY_SUM)
    assert ((r >= 1 << 15) & (r < 1 << 16)).all()
    assert ((EVERY_SUM >> e) == 1).all()
    one = np.int64(1) << (16 + e)
    assert (np.abs(r * EVERY_SUM - one) << 15 <= one).all()


def test_every_mantissa_equals_the_reference() -> None:
    mantissas = np.arange(1 << 19, 1 << 20)
    r, e = reciprocal(mantissas)
    assert (e == 19).all()
    assert r.tolist() == [ref_reciprocal(s)[0] for s in mantissas.tolist()]


def test_the_lowest_bit_of_a_sum_of_21_bits_has_no_part() -> None:
    sums = np.arange(1 << 20, 1 << 21)
    r, e = reciprocal(sums)
    assert (e == 20).all()
    assert (r == reciprocal(sums >> 1)[0]).all()

from fractions import Fraction

import numpy as np
import pytest

from golden.reciprocal import reciprocal
from golden.softmax import EXP2_TABLE, row_scale, softmax
from tests.golden.reference import EXP2, ref_row_scale, ref_softmax

ALL = np.array([True])


def test_table_is_rounded_exactly() -> None:
    assert EXP2_TABLE.tolist() == EXP2
    assert EXP2_TABLE[0] == 65280
    assert EXP2_TABLE[128] == 46160  # 65280 / sqrt(2) = 46159.93


@pytest.mark.parametrize("spread", [1, 2, 4])
def test_mean_absolute_error(spread: int) -> None:
    """N(0, s) logits at 128 keys: probabilities within 0.025 % in the mean."""
    logits = np.random.default_rng(spread).normal(0, spread, (4000, 128))
    scores = np.clip(np.round(logits * 256 / np.log(2)), -32768, 32767).astype(np.int16)
    p, _, row_sum = softmax(scores, ALL)
    exact = np.exp(logits - logits.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    assert np.abs(p / row_sum[:, None] - exact).mean() <= 0.025e-2


def test_rows_equal_the_reference() -> None:
    """Random rows of every spread with holes, one valid key, none, and rows of equal scores."""
    rng = np.random.default_rng(7)
    spreads = np.repeat([30, 300, 3000, 30_000], 40)[:, None]
    scores = np.clip(rng.normal(0, spreads, (160, 19)), -32768, 32767).astype(np.int16)
    attend = rng.random((160, 19)) < 0.7
    attend[::20] = False
    attend[range(19), range(19)] = True
    scores[1::20] = scores[1::20, :1]
    p, row_max, row_sum = softmax(scores, attend)
    assert (p.dtype, row_max.dtype, row_sum.dtype) == (np.uint8, np.int16, np.int32)
    assert row_sum.min() == 0
    rows = zip(scores.tolist(), attend.tolist(), p.tolist(), row_max, row_sum)
    for score, mask, *result in rows:
        assert tuple(result) == ref_softmax(score, mask)
    assert softmax(np.full(8192, -77, np.int16), ALL)[2] == 255 * 8192


def test_every_distance() -> None:
    """p of one key at every distance below the maximum: 255 * 2^(-d/256), within 0.5 + 1/256."""
    scores = np.arange(-32768, 32768)[:, None] + np.zeros((1, 2), np.int64)
    scores[:, 0] = 32767
    p, _, _ = softmax(scores.astype(np.int16), ALL)
    d = 32767 - np.arange(-32768, 32768)
    assert np.abs(p[:, 1] - 255 * 2.0 ** (-d / 256)).max() <= 0.5 + 1 / 256
    assert (p[:, 0] == 255).all()
    assert (np.diff(p[:, 1].astype(int)) >= 0).all()


def test_row_scale_equals_the_reference() -> None:
    """Of no key as well, and where P rounds to m_row = 2^16: 2^15 with a shift of one less."""
    rng = np.random.default_rng(1)
    ends = [0, 255, 256, 1 << 19, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (1 << 21) - 1]
    sums = np.concatenate([rng.integers(255, 1 << 21, 3000), ends])
    carried = np.arange(255, 20_000)
    below = np.minimum(((1 << 31) - 1) // reciprocal(carried)[0], 65535)
    cases = [(sums, np.full(len(sums), m)) for m in (1 << 15, 65535, 65534, 46341, 40000)]
    for x, m in [*cases, (carried, below)]:
        got_m, got_s = row_scale(x, m, 17)
        assert got_m.dtype == got_s.dtype == np.int32
        expected = [ref_row_scale(*case, 17) for case in zip(x.tolist(), m.tolist())]
        assert list(zip(got_m.tolist(), got_s.tolist())) == expected
    assert (got_m == 1 << 15).sum() > 1000


def test_rows_sum_to_one() -> None:
    """sum p times its reciprocal is one within 2^-15 before, 2^-14 after the rounding to m_row."""
    for row_sum in range(255, 255 * 512, 97):
        m_row, s_row = row_scale(np.array(row_sum), 1 << 15, 15)
        one = Fraction(int(m_row) * row_sum, 2 ** int(s_row))
        assert abs(one - 1) <= Fraction(1, 1 << 14)

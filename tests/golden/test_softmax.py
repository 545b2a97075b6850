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


def test_random_rows_equal_the_reference() -> None:
    rng = np.random.default_rng(7)
    for spread in (30, 300, 3000, 30_000):
        scores = np.clip(rng.normal(0, spread, (40, 19)), -32768, 32767).astype(np.int16)
        attend = rng.random((40, 19)) < 0.7
        attend[:, 3] = True
        p, row_max, row_sum = softmax(scores, attend)
        assert (p.dtype, row_max.dtype, row_sum.dtype) == (np.uint8, np.int16, np.int32)
        rows = zip(scores.tolist(), attend.tolist(), p.tolist(), row_max, row_sum)
        for score, mask, *result in rows:
            assert tuple(result) == ref_softmax(score, mask)


def test_every_distance() -> None:
    """p of one key at every distance below the maximum: 255 * 2^(-d/256), within 0.5 + 1/256."""
    scores = np.arange(-32768, 32768)[:, None] + np.zeros((1, 2), np.int64)
    scores[:, 0] = 32767
    p, _, _ = softmax(scores.astype(np.int16), ALL)
    d = 32767 - np.arange(-32768, 32768)
    assert np.abs(p[:, 1] - 255 * 2.0 ** (-d / 256)).max() <= 0.5 + 1 / 256
    assert (p[:, 0] == 255).all()
    assert (np.diff(p[:, 1].astype(int)) >= 0).all()


def test_masked_keys_have_no_part() -> None:
    scores = np.array([100, 32767, 90, -32768], np.int16)
    attend = np.array([True, False, True, False])
    p, row_max, row_sum = softmax(scores, attend)
    short = softmax(scores[attend], ALL)
    assert p[~attend].tolist() == [0, 0]
    assert (p[attend].tolist(), row_max, row_sum) == (short[0].tolist(), short[1], short[2])


@pytest.mark.parametrize("score", [-32768, -1, 0, 32767])
def test_one_valid_key(score: int) -> None:
    attend = np.array([False, True, False])
    p, row_max, row_sum = softmax(np.array([5, score, 32767], np.int16), attend)
    assert (p.tolist(), row_max, row_sum) == ([0, 255, 0], score, 255)


@pytest.mark.parametrize("keys", [1, 2, 128, 4112, 4113, 8192])
def test_equal_rows(keys: int) -> None:
    p, row_max, row_sum = softmax(np.full((2, keys), -77, np.int16), ALL)
    assert (p == 255).all()
    assert row_max.tolist() == [-77, -77]
    assert row_sum.tolist() == [255 * keys, 255 * keys]


def test_a_row_without_a_valid_key() -> None:
    """Beside one with: the least score, no weight, and the scale of the sum 2^20."""
    attend = np.array([[False] * 3, [False, True, False]])
    p, row_max, row_sum = softmax(np.zeros((2, 3), np.int16), attend)
    assert p.tolist() == [[0, 0, 0], [0, 255, 0]]
    assert (row_max.tolist(), row_sum.tolist()) == ([-32768, 0], [0, 255])
    row_m, row_s = row_scale(row_sum, 40_000, 17)
    assert (row_m[0], row_s[0]) == ref_row_scale(0, 40_000, 17)


def test_row_scale_equals_the_reference() -> None:
    rng = np.random.default_rng(1)
    ends = [255, 256, 1 << 19, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (1 << 21) - 1]
    sums = np.concatenate([rng.integers(255, 1 << 21, 3000), ends])
    for m in (1 << 15, 65535, 65534, 46341, 40000):
        got_m, got_s = row_scale(sums, m, 17)
        assert got_m.dtype == got_s.dtype == np.int32
        expected = [ref_row_scale(x, m, 17) for x in sums.tolist()]
        assert list(zip(got_m.tolist(), got_s.tolist())) == expected


def test_row_scale_carries_into_the_next_power() -> None:
    """P within 2^14 below 2^31 rounds to m_row = 2^16, which is 2^15 with a shift of one less."""
    sums = np.arange(255, 20_000)
    r, e = reciprocal(sums)
    m = np.minimum(((1 << 31) - 1) // r, 65535)
    carries = (r * m < 1 << 31) & (r * m >= (1 << 31) - (1 << 14))
    assert carries.sum() > 1000
    m_row, s_row = row_scale(sums, m, 15)
    assert (m_row[carries] == 1 << 15).all()
    assert (s_row[carries] == 15 + 16 + e[carries] - 16).all()
    expected = [ref_row_scale(x, y, 15) for x, y in zip(sums.tolist(), m.tolist())]
    assert list(zip(m_row.tolist(), s_row.tolist())) == expected


def test_row_scale_by_hand() -> None:
    """r = 65535 for a sum of 256: P = 65535 * m on either side of 2^31."""
    assert row_scale(np.array(256), 32768, 15) == (65535, 24)
    assert row_scale(np.array(256), 32769, 15) == (32768, 23)
    assert row_scale(np.array(256), 65535, 15) == (65534, 23)


def test_rows_sum_to_one() -> None:
    """sum p times its reciprocal is one within 2^-15 before, 2^-14 after the rounding to m_row."""
    for row_sum in range(255, 255 * 512, 97):
        m_row, s_row = row_scale(np.array(row_sum), 1 << 15, 15)
        one = Fraction(int(m_row) * row_sum, 2 ** int(s_row))
        assert abs(one - 1) <= Fraction(1, 1 << 14)

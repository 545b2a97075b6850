from fractions import Fraction

import numpy as np
import pytest

from golden.layernorm import layernorm
from golden.model import RMS_HIDDEN_MAX, Norm
from golden.requantize import round_shift
from golden.rsqrt import rsqrt
from tests.golden.reference import ref_layernorm


def plain(hidden: int, shift: int = 12, epsilon: int = 1) -> Norm:
    """y = n * 2^(12-shift) * 2^-12 * 2^shift: gamma 1 and beta 0 at 2^-shift, y = n."""
    return Norm(np.full(hidden, 1 << shift, np.int16), np.zeros(hidden, np.int32), shift, epsilon)


def real_like(hidden: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows as BERT's residual stream has them: an offset, a few outlier channels, gamma near 1."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, rng.uniform(0.3, 1.5, (200, 1)), (200, hidden)) + rng.normal(0, 0.2)
    outliers = rng.choice(hidden, max(1, hidden // 60), replace=False)
    x[:, outliers] *= rng.uniform(4, 10, len(outliers))
    return x, rng.normal(0.9, 0.15, hidden), rng.normal(0, 0.2, hidden)


@pytest.mark.parametrize("hidden", [32, 96, 128, 256, 384, 768, 1024])
def test_within_two_and_a_half_steps_of_float(hidden: int) -> None:
    x, gamma, beta = real_like(hidden, hidden)
    step = np.abs(x).max() / 32767
    z = np.round(x / step).astype(np.int16)
    eps = 1e-12
    exact = z * step - (z * step).mean(axis=1, keepdims=True)
    exact = exact / np.sqrt((exact**2).mean(axis=1, keepdims=True) + eps) * gamma + beta
    out = np.abs(exact).max() / 32767
    # gamma and beta at 2^-shift of the output step; n has 12 fraction bits
    shift = 31
    while np.abs(gamma / out).max() * 2.0 ** (shift - 12) > 32767:
        shift -= 1
    norm = Norm(
        gamma=np.round(gamma / out * 2.0 ** (shift - 12)).astype(np.int16),
        beta=np.round(beta / out * 2.0**shift).astype(np.int32),
        shift=shift,
        epsilon=max(1, round(eps * hidden**2 / step**2)),
    )
    error = np.abs(layernorm(z, norm) - exact / out)
    assert error.max() <= 2.5
    assert error.mean() <= 0.6


@pytest.mark.parametrize("hidden", [1, 2, 3, 12, 128, 1024])
def test_random_rows_equal_the_reference(hidden: int) -> None:
    rng = np.random.default_rng(hidden)
    norm = Norm(
        gamma=rng.integers(-32768, 32768, hidden).astype(np.int16),
        beta=rng.integers(-(1 << 31), 1 << 31, hidden).astype(np.int32),
        shift=15,
        epsilon=12345,
    )
    z = rng.integers(-32768, 32768, (12, hidden)).astype(np.int16)
    z[4:] >>= 8
    z[8:] >>= 5
    y = layernorm(z, norm)
    assert y.dtype == np.int16
    assert y.tolist() == [ref_layernorm(row, norm) for row in z.tolist()]


@pytest.mark.parametrize("value", [-32768, -1, 0, 1, 32767])
@pytest.mark.parametrize("hidden", [1, 96, 1024])
def test_constant_rows_give_beta(value: int, hidden: int) -> None:
    beta = np.arange(hidden, dtype=np.int32) * 64 - 300
    norm = Norm(np.full(hidden, 20_000, np.int16), beta, 6, 1)
    y = layernorm(np.full((2, hidden), value, np.int16), norm)
    assert y.tolist() == [[(int(b) + 32) >> 6 for b in beta]] * 2


def test_largest_variance_of_the_widest_row() -> None:
    """Half -32768, half 32767 at H = 1024: V = 2^50 nearly, n = -1 and 1."""
    z = np.repeat(np.array([-32768, 32767], np.int16), 512)[None]
    y = layernorm(z, plain(1024, epsilon=(1 << 50) - 1))
    # E = 2^50 doubles V: 1/sqrt(2) of 4096
    assert y[0, 0] == pytest.approx(-4096 / np.sqrt(2), abs=1)
    y = layernorm(z, plain(1024))
    assert set(np.abs(y[0]).tolist()) <= {4095, 4096, 4097}


def test_one_outlier_reaches_the_largest_n() -> None:
    """n = sqrt(H - 1): 31.98 at H = 1024, the reason for 18 bits."""
    z = np.full((1, 1024), -32768, np.int16)
    z[0, 7] = 32767
    norm = Norm(np.full(1024, 1 << 10, np.int16), np.zeros(1024, np.int32), 13, 1)
    y = int(layernorm(z, norm)[0, 7])
    assert abs(Fraction(y * 8, 4096) ** 2 - 1023) < Fraction(1, 10)


def test_n_of_an_rms_norm_fits_18_bits() -> None:
    """|n| <= sqrt(H) by V >= H z^2, so a channel beside zeros has the largest: every such z."""
    h, z = RMS_HIDDEN_MAX, np.arange(1, (1 << 15) + 1, dtype=np.int64)
    r, e = (x.astype(np.int64) for x in rsqrt(h * z * z + 1))
    n = round_shift(h * z * r, e + 4)
    assert n.max() < 1 << 17
    with pytest.raises(ValueError, match="gamma has 1024 channels"):
        Norm(np.zeros(1024, np.int16), np.zeros(1024, np.int32), 1, 1, rms=True)


@pytest.mark.parametrize(("gamma", "limit"), [(32767, 32767), (-32768, -32768)])
def test_saturates(gamma: int, limit: int) -> None:
    z = np.array([[100, -100, -100, -100]], np.int16)
    norm = Norm(np.full(4, gamma, np.int16), np.zeros(4, np.int32), 1, 1)
    assert layernorm(z, norm)[0, 0] == limit


def test_tokens_do_not_meet() -> None:
    rng = np.random.default_rng(3)
    z = rng.integers(-32768, 32768, (2, 5, 64)).astype(np.int16)
    whole = layernorm(z, plain(64))
    assert (whole[1, 2] == layernorm(z[1, 2], plain(64))).all()

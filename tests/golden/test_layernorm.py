import numpy as np
import pytest

from golden.layernorm import layernorm
from golden.model import RMS_HIDDEN_MAX, Norm
from golden.requantize import round_shift
from golden.rsqrt import rsqrt
from tests.golden.reference import ref_layernorm


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
def test_rows_equal_the_reference(hidden: int) -> None:
    """Random rows, constant ones, the largest variance and one outlier, |n| = sqrt(H - 1)."""
    rng = np.random.default_rng(hidden)
    z = rng.integers(-32768, 32768, (16, hidden)).astype(np.int16)
    z[4:] >>= 8
    z[8:] >>= 5
    z[12:] = -32768
    z[13] = 32767
    z[14, hidden // 2 :] = 32767
    z[15, -1] = 32767
    for shift, epsilon in ((15, 12345), (1, 1), (31, (1 << 50) - 1)):
        norm = Norm(
            gamma=rng.integers(-32768, 32768, hidden).astype(np.int16),
            beta=rng.integers(-(1 << 31), 1 << 31, hidden).astype(np.int32),
            shift=shift,
            epsilon=epsilon,
        )
        y = layernorm(z.reshape(4, 4, hidden), norm)
        assert y.dtype == np.int16
        assert y.reshape(z.shape).tolist() == [ref_layernorm(row, norm) for row in z.tolist()]


def test_n_of_an_rms_norm_fits_18_bits() -> None:
    """|n| <= sqrt(H) by V >= H z^2, so a channel beside zeros has the largest: every such z."""
    h, z = RMS_HIDDEN_MAX, np.arange(1, (1 << 15) + 1, dtype=np.int64)
    r, e = (x.astype(np.int64) for x in rsqrt(h * z * z + 1))
    n = round_shift(h * z * r, e + 4)
    assert n.max() < 1 << 17
    with pytest.raises(ValueError, match="gamma has 1024 channels"):
        Norm(np.zeros(1024, np.int16), np.zeros(1024, np.int32), 1, 1, rms=True)

import numpy as np
import pytest

from quant.model.activation import gelu
from quant.quantize.observers import SAMPLE, Observer, activation_clipping_point


def observed(*parts: np.ndarray) -> Observer:
    observer = Observer()
    for part in parts:
        observer.observe(part.astype(np.float32))
    return observer


def test_extremes_and_means_are_those_of_all_that_was_seen() -> None:
    rng = np.random.default_rng(3)
    parts = [rng.normal(0, spread, (50, 7)) for spread in (0.1, 3, 40, 1)]
    values = np.concatenate(parts)
    grown = observed(*parts)
    assert grown.extremes == pytest.approx((values.min(), values.max()))
    assert grown.amplitude == pytest.approx(np.abs(values).max())
    np.testing.assert_allclose(grown.channel_means, values.mean(axis=0), rtol=1e-5)


def test_a_copy_and_what_is_reframed_are_as_observed_again() -> None:
    """Channels that are moved and scaled: extremes, means, and what comes later."""
    rng = np.random.default_rng(7)
    parts = [rng.normal(3, 2, (n, 6)) for n in (5, 1, 40)]
    factors, centres = rng.uniform(0.1, 9, 6), rng.normal(0, 3, 6)
    plain, again = Observer(), Observer()
    for x in parts[:2]:
        plain.observe(x)
    moved = plain.reframed(factors, centres)
    plain.observe(parts[2])
    for x in parts[:2]:
        again.observe((x - centres) / factors)
    assert moved.extremes == again.extremes
    np.testing.assert_array_equal(moved.channel_extremes, again.channel_extremes)
    np.testing.assert_allclose(moved.channel_means, again.channel_means, rtol=1e-12)
    assert plain.extremes[1] == np.float32(max(x.max() for x in parts))


def test_all_zeros() -> None:
    zeros = observed(np.zeros((3, 3)))
    assert activation_clipping_point(zeros, "gelu") == 1


def test_the_flat_ends_of_an_activation_need_no_codes() -> None:
    wide = observed(np.linspace(-12, 3, 1500)[:, None])
    point = activation_clipping_point(wide, "gelu")
    assert 3 <= point < 3.2  # below -3 GELU is 0 to half an LSB; above 3 it is not flat
    assert activation_clipping_point(wide, "relu") == pytest.approx(3, abs=0.03)
    assert activation_clipping_point(wide, "tanh") == pytest.approx(
        np.arctanh(1 - 1 / 255), abs=0.05
    )
    narrow = observed(np.linspace(-3, 0.1, 500)[:, None])
    point = activation_clipping_point(narrow, "gelu")
    x = np.linspace(-3, 0.1, 500)
    moved = np.abs(gelu(x) - gelu(np.clip(x, -point * 128 / 127, point)))
    assert moved.max() <= 0.5 * gelu(point) / 127


def test_rows_are_kept_evenly_and_in_their_order() -> None:
    observer = Observer(sampled=True)
    start = 0
    for length in (1, 7, 500, 1500, 3, 2999, 41):
        observer.observe(np.arange(start, start + length, dtype=np.float64)[:, None] * [1, -1])
        start += length
    rows = observer.rows[:, 0]
    assert SAMPLE // 2 < len(rows) <= SAMPLE
    np.testing.assert_array_equal(rows, np.arange(0, start, 4))
    low, high = observer.channel_extremes
    assert (low.tolist(), high.tolist()) == ([0, 1 - start], [start - 1, 0])

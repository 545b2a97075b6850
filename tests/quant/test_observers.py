import numpy as np
import pytest

from quant.model.activation import gelu
from quant.quantize.observers import (
    BINS,
    METHODS,
    SAMPLE,
    Observer,
    activation_clipping_point,
    clipping_point,
    observe,
)


def observed(*parts: np.ndarray) -> Observer:
    observer = Observer()
    for part in parts:
        observer.observe(part.astype(np.float32))
    return observer


def test_extremes_means_and_histogram_grow_with_the_data() -> None:
    rng = np.random.default_rng(3)
    parts = [rng.normal(0, spread, (50, 7)) for spread in (0.1, 3, 40, 1)]
    values = np.concatenate(parts)
    grown = observed(*parts)
    assert grown.minimum == pytest.approx(values.min())
    assert grown.maximum == pytest.approx(values.max())
    assert grown.amplitude == pytest.approx(np.abs(values).max())
    assert (grown.count, grown.counts.sum()) == (values.size, values.size)
    np.testing.assert_allclose(grown.channel_means, values.mean(axis=0), rtol=1e-5)
    # Growing in steps ends with the histogram that knowing the reach from the start gives.
    ordered = observed(values[np.argsort(-np.abs(values).max(axis=1))])
    assert grown.reach == ordered.reach == 2 ** np.ceil(np.log2(grown.amplitude))
    np.testing.assert_array_equal(grown.counts, ordered.counts)


def test_values_fall_into_their_bins() -> None:
    observer = observed(np.array([[-1.0, -0.5, 0.0, 0.5, 0.999]]))
    assert observer.reach == 2  # the next power of two above 1, so that 1 itself has a bin
    filled = observer.centres[observer.counts > 0]
    np.testing.assert_allclose(filled, [-1, -0.5, 0, 0.5, 0.999], atol=2 * observer.reach / BINS)


def test_quantiles_against_numpy() -> None:
    values = np.random.default_rng(4).standard_t(3, (4000, 50))
    observer = observed(values)
    for fraction in (0.01, 0.25, 0.5, 0.99):
        width = 2 * observer.reach / BINS
        assert observer.quantile(fraction) == pytest.approx(
            np.quantile(values, fraction), abs=1.1 * width
        )


def test_scores_of_several_lengths_have_no_channels() -> None:
    observer = observed(np.ones((2, 3, 3)), np.ones((2, 5, 5)))
    assert observer.count == 2 * 9 + 2 * 25


def test_observe_keeps_one_observer_a_name() -> None:
    observers: dict[str, Observer] = {}
    for value in (1.0, -2.0):
        observe({"x": np.full((1, 2), value, np.float32)}, observers)
    assert (observers["x"].minimum, observers["x"].maximum) == (-2, 1)


def test_clipping_points_of_a_long_tail() -> None:
    values = np.random.default_rng(5).normal(0, 1, (1000, 100))
    values[0, 0] = 60.0
    observer = observed(values)
    assert clipping_point(observer, "min-max") == 60
    assert clipping_point(observer, "percentile") == pytest.approx(
        np.quantile(np.abs(values), 0.9999), rel=0.15
    )
    point = clipping_point(observer, "mse")
    assert point < 60

    def error(amplitude: float) -> float:
        scale = amplitude / 127
        return float(np.mean((values - np.clip(np.round(values / scale), -128, 127) * scale) ** 2))

    assert error(point) <= min(error(60 * share) for share in (0.2, 0.4, 0.6, 0.8, 1)) * 1.001


def test_nothing_observed_and_all_zeros() -> None:
    zeros = observed(np.zeros((3, 3)))
    for method in METHODS:
        assert clipping_point(zeros, method) == 1
        assert activation_clipping_point(zeros, method, "gelu") == 1
    with pytest.raises(ValueError, match=r"nothing was observed"):
        _ = Observer().channel_means
    with pytest.raises(ValueError, match=r"calibration method 'max': choose one of min-max, per"):
        clipping_point(observed(np.ones((1, 1))), "max")


def test_the_flat_ends_of_an_activation_need_no_codes() -> None:
    wide = observed(np.linspace(-12, 3, 1500)[:, None])
    point = activation_clipping_point(wide, "min-max", "gelu")
    assert 3 <= point < 3.2  # below -3 GELU is 0 to half an LSB; above 3 it is not flat
    assert activation_clipping_point(wide, "min-max", "relu") == pytest.approx(3, abs=0.03)
    assert activation_clipping_point(wide, "min-max", "tanh") == pytest.approx(
        np.arctanh(1 - 1 / 255), abs=0.05
    )
    narrow = observed(np.linspace(-3, 0.1, 500)[:, None])
    point = activation_clipping_point(narrow, "min-max", "gelu")
    x = np.linspace(-3, 0.1, 500)
    moved = np.abs(gelu(x) - gelu(np.clip(x, -point * 128 / 127, point)))
    assert moved.max() <= 0.5 * gelu(point) / 127


def test_mse_of_an_activation_is_that_of_its_output() -> None:
    x = np.random.default_rng(6).normal(-2, 2, (500, 40))
    observer = observed(x)
    point = activation_clipping_point(observer, "mse", "gelu")

    def error(amplitude: float) -> float:
        scale, out = amplitude / 127, gelu(amplitude) / 127
        codes = np.clip(np.floor(x / scale + 0.5), -128, 127)
        output = np.clip(np.floor(gelu(codes * scale) / out + 0.5), -128, 127) * out
        return float(np.mean((output - gelu(x)) ** 2))

    others = [error(observer.amplitude * share) for share in np.linspace(0.3, 1, 15)]
    assert error(point) <= min(others) * 1.01


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
    with pytest.raises(ValueError, match="no rows were kept"):
        _ = observed(np.ones((3, 2))).rows

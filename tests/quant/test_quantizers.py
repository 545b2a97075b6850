import numpy as np
import pytest

from golden.activation import lookup
from golden.layernorm import layernorm
from golden.linear import operand
from golden.model import Linear
from golden.requantize import requantize
from quant.model.activation import ACTIVATIONS
from quant.model.float_model import layer_norm
from quant.quantize import quantizers
from quant.quantize.quantizers import CalibrationError


def test_rounds_ties_upwards() -> None:
    assert quantizers.rounded([-1.5, -0.5, 0.5, 1.5, 1.49]).tolist() == [-1, 0, 1, 2, 1]


def test_normalise_keeps_sixteen_bits() -> None:
    x = 2.0 ** np.random.default_rng(1).uniform(-31.5, 14.9, 5000)
    m, s = quantizers.normalise("x", x)
    assert ((m >= 1 << 15) & (m < 1 << 16)).all()
    assert ((s >= 1) & (s <= 47)).all()
    assert np.abs(m * 2.0**-s / x - 1).max() <= 2**-16
    assert [int(v) for v in quantizers.normalise("one", 1.0)] == [1 << 15, 15]
    assert [int(v) for v in quantizers.normalise("carry", 1 - 1e-9)] == [1 << 15, 15]


def test_shifts_are_the_least_that_lose_no_more_than_half_a_step() -> None:
    """By golden itself: with one less something saturates."""
    ends = np.array([1, 100, 254, 255, 256, 509, 510, 1000, 4000, 20_000, 32_511, 32_640])
    x16 = np.stack([-ends // 3, ends]) * np.where(np.arange(len(ends)) % 2, 1, -1)
    low, high = x16.min(axis=0), x16.max(axis=0)
    shifts = quantizers.operand_shifts(low / 64, high / 64, 1 / 64)

    def clipped(shifts: np.ndarray) -> np.ndarray:
        codes = operand(x16, shifts).astype(int)
        return (np.abs(codes * 2.0**shifts - x16) > 2.0 ** (shifts - 1)).any(axis=0)

    assert not clipped(shifts).any()
    assert clipped(shifts - 1)[shifts > 1].all()
    assert {1, 2, 8} <= set(shifts.tolist())


@pytest.mark.parametrize("factor", [2.0**-33, 2.0**16, 0.0])
def test_normalise_refuses_what_the_requantizer_cannot_do(factor: float) -> None:
    with pytest.raises(CalibrationError, match=r"layer.0.q: the scale factor .* 2\^-32 and 2\^15"):
        quantizers.normalise("layer.0.q", factor)


def real(layer: Linear, codes: np.ndarray, output_scale: float) -> np.ndarray:
    """What a layer makes of int8 codes, in real units."""
    acc = codes.astype(np.int64) @ layer.weight.T.astype(np.int64) + layer.bias
    return requantize(acc, layer.m, layer.s, 16) * output_scale


def test_a_linear_layer_equals_its_float_twin() -> None:
    rng = np.random.default_rng(2)
    weight, bias = rng.normal(size=(30, 40)), rng.normal(size=30)
    weight *= 10.0 ** rng.uniform(-3, 1, (30, 1))  # channels of very different size
    codes = rng.integers(-127, 128, (200, 40))
    result, scales, reach = quantizers.linear("x", weight, bias, 0.02, 1e-4)
    exact = codes * 0.02 @ weight.T + bias
    error = np.abs(real(result, codes, 1e-4) - exact)
    # Rounding the weights costs at most half a step of the weight in each of 40 products.
    bound = 0.5 * scales * np.abs(codes * 0.02).sum(axis=1, keepdims=True)
    clipped = np.abs(exact) > 32000e-4
    assert (error <= bound + 1e-4 + np.abs(exact) * 2**-15)[~clipped].all()
    assert (np.abs(result.weight).max(axis=1) == 127).all()
    worst = 128 * np.abs(result.weight.astype(int)).sum(axis=1) + abs(result.bias)
    assert reach == worst.max()


def test_bias_correction_removes_the_mean_error() -> None:
    rng = np.random.default_rng(3)
    weight, bias = rng.normal(size=(8, 64)), np.zeros(8)
    codes = rng.integers(20, 120, (500, 64))  # a mean far from zero
    exact = codes * 0.01 @ weight.T
    errors = []
    for means in (0.0, (codes * 0.01).mean(axis=0)):
        found, *_ = quantizers.linear("x", weight, bias, 0.01, 1e-3, input_means=means)
        errors.append(np.abs((real(found, codes, 1e-3) - exact).mean(axis=0)).max())
    assert errors[1] < 1e-3 < errors[0]


def test_a_dead_channel_and_a_large_bias_get_a_scale_that_fits() -> None:
    weight = np.array([[0, 0], [1e-9, 0], [1, 1], [0, 0]], np.float32)
    bias = np.array([0, 5, 0.5, -3], np.float32)
    result, *_ = quantizers.linear("x", weight, bias, 0.1, 0.05)
    assert np.abs(result.bias).max() <= (1 << 30) - 2 * 128 * 127
    np.testing.assert_allclose(real(result, np.zeros((1, 2)), 0.05)[0], [0, 5, 0.5, -3], atol=0.026)


def test_logits_that_are_compared_share_one_scale() -> None:
    weight = np.array([[1.0, 0.5], [0.01, 0.02]], np.float32)
    bias = np.zeros(2, np.float32)
    logits, scales, _ = quantizers.linear("head.1", weight, bias, 0.1, None, per_channel=False)
    assert logits.m is None
    assert len(set(scales)) == 1
    assert logits.weight.tolist() == [[127, 64], [1, 3]]


def test_refuses_sums_beyond_the_accumulator() -> None:
    with pytest.raises(CalibrationError, match=r"ffn: a sum of 70000 products does not fit int32"):
        quantizers.linear("ffn", np.zeros((1, 70000), np.float32), np.zeros(1, np.float32), 1, 1)
    # The second weight rounds to 0, and an absurd mean makes its error a bias beyond int32.
    weight = np.array([[1, 0.4 / 127]], np.float32)
    with pytest.raises(CalibrationError, match=r"ffn: channel 0 may reach \d+, beyond the int32"):
        quantizers.linear(
            "ffn", weight, np.zeros(1, np.float32), 1, 1, input_means=np.array([0, 1e12])
        )


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
@pytest.mark.parametrize("point", [0.05, 0.7, 2.77, 4.0, 11.5])
def test_tables_are_within_half_an_lsb_for_every_code(activation: str, point: float) -> None:
    (table, low), scale = quantizers.activation_table(activation, point)
    assert low is None
    codes = np.arange(-128, 128).astype(np.int8)
    exact = ACTIVATIONS[activation](codes * (point / 127))
    error = np.abs(lookup(table, codes) * scale - exact) / scale
    assert error.max() <= 0.5 + 1e-9
    assert lookup(table, np.array([127], np.int8))[0] == 127


def test_layer_norm_on_real_rows(classifier: object, texts: list) -> None:
    """Within 2.5 LSB of the int16 output for the very z that the encoder sees."""
    from golden import encoder

    model, info = classifier.model, classifier.info["tensors"]
    arrays, spec = classifier.require_checkpoint().arrays, classifier.spec
    trace: dict[str, np.ndarray] = {}
    encoder.run(model, texts[0].ids, texts[0].types, trace=trace)
    norms = {"embedding": ("embedding.norm", model.embedding.norm)}
    for i, layer in enumerate(model.layers):
        norms[f"layer.{i}.attention"] = f"layer.{i}.norm1", layer.norm1
        norms[f"layer.{i}.ffn"] = f"layer.{i}.norm2", layer.norm2
    assert len(norms) == 5
    for name, (parameters, norm) in norms.items():
        z, scale = trace[f"{name}.sum"], info[f"{name}.norm"]["scale"]
        gamma, beta = (arrays[f"{parameters}.{key}"].astype(float) for key in ("gamma", "beta"))
        exact = layer_norm(z * info[f"{name}.sum"]["scale"], gamma, beta, spec.epsilon) / scale
        exact = exact.clip(-32768, 32767)
        assert np.abs(layernorm(z, norm) - exact).max() <= 2.5, name


def test_layer_norm_parameters_use_their_bits_and_are_refused_beyond() -> None:
    rng = np.random.default_rng(4)
    gamma, beta = rng.uniform(0.1, 2, 16).astype(np.float32), rng.normal(size=16)
    norm = quantizers.layer_norm("n", gamma, beta.astype(np.float32), 1e-12, 1e-3, 1e-4)
    assert np.abs(norm.gamma).max() >= 1 << 14
    assert norm.epsilon == 1
    assert quantizers.layer_norm("n", gamma, beta, 1e-3, 1e-3, 1e-4).epsilon == round(
        1e-3 * 256 / 1e-6
    )
    with pytest.raises(CalibrationError, match=r"layer.0.norm1: gamma or beta is too large"):
        quantizers.layer_norm("layer.0.norm1", gamma * 1e9, beta, 1e-12, 1e-3, 1e-4)
    with pytest.raises(CalibrationError, match=r"norm2: epsilon 0.1 is \S+ LSB .*above 2\^50"):
        quantizers.layer_norm("norm2", gamma, beta, 0.1, 1e-9, 1e-4)


@pytest.mark.parametrize("points", [(1.0, 1.0), (5.0, 0.02), (0.001, 1.0), (2.0, 3.1)])
def test_wide_tables_hold_every_value_to_half_a_step(points: tuple[float, float]) -> None:
    a_t, a_p, scale = quantizers.embedding_factors(*points, wide=True)
    assert a_t + a_p == 256
    assert scale * 127 * 258 < 1.01 * sum(points)
    for factor, point in ((a_t, points[0]), (a_p, points[1])):
        table = np.linspace(-point, point, 4001)
        high, low = quantizers.table_codes(table, scale, factor)
        assert high.dtype == low.dtype == np.int8
        assert max(abs(int(c)) for codes in (high, low) for c in (codes.min(), codes.max())) <= 127
        values = (factor * high.astype(int) + low) * scale
        assert np.abs(values - table).max() <= scale * 0.5001


def test_embedding_factors_reach_both_tables() -> None:
    for token, position in [(1.0, 1.0), (3.0, 0.2), (0.05, 2.0), (1.0, 0.001)]:
        a_t, a_p, scale = quantizers.embedding_factors(token, position)
        assert 1 <= a_t <= 255
        assert 1 <= a_p <= 255
        assert a_t + a_p <= 258
        assert 127 * a_t * scale >= token * (1 - 1e-12)
        assert 127 * a_p * scale >= position * (1 - 1e-12)
        # No waste: the coarser of the two tables is as fine as its 8 bits allow.
        assert min(127 * a_t * scale / token, 127 * a_p * scale / position) == pytest.approx(1)


def test_table_codes_round_and_clip() -> None:
    codes, _ = quantizers.table_codes(np.array([[0.1, -0.1, 0.004, 9.0, -9.0]], np.float32), 0.01)
    assert codes.tolist() == [[10, -10, 0, 127, -127]]

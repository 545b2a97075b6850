from types import SimpleNamespace

import numpy as np
import pytest

from golden import encoder
from golden.model import Window
from quant.foreign.tokenizer import Tokens
from quant.measure.compare import TensorError, compare, softmax_errors, table
from quant.model.float_model import softmax
from quant.quantize.quantizers import softmax_change
from quant.quantized_model import QuantizedModel

TENSORS = {"a.norm": {"scale": 0.5, "bits": 16}, "a.x8": {"scale": 2.0, "bits": 8}}


def test_errors_by_hand() -> None:
    errors: dict[str, TensorError] = {}
    floats = {"a.norm": np.array([1.0, -2.0, 300.0])}
    integers = {"a.norm": np.array([2, -5, 600], np.int16), "a.x8": np.array([0, -1, 127], np.int8)}
    compare(errors, floats, integers, TENSORS)
    norm, x8 = errors["a.norm"], errors["a.x8"]
    assert (norm.count, norm.limits, norm.noise, norm.largest) == (3, 0, 0.25, 0.5)
    assert norm.signal == 90005
    assert norm.sqnr == pytest.approx(10 * np.log10(90005 / 0.25))
    assert (x8.limits, x8.largest) == (1, 46)
    assert x8.to_json()["largest_error_lsb"] == 23
    compare(errors, floats, integers, TENSORS)
    assert (errors["a.x8"].limits, errors["a.x8"].count) == (2, 6)


def test_probabilities_are_p_over_its_sum() -> None:
    errors: dict[str, TensorError] = {}
    floats = {"layer.0.probs": np.array([[[0.75, 0.25]]])}
    integers = {
        "layer.0.p": np.array([[[255, 85]]], np.uint8),
        "layer.0.sum": np.array([[340]], np.int32),
    }
    compare(errors, floats, integers, {})
    assert errors["layer.0.probs"].noise == 0
    assert errors["layer.0.probs"].sqnr == 200  # of a tensor without any error


def test_softmax_on_real_rows(classifier: QuantizedModel, texts: list[Tokens]) -> None:
    """Mean total variation of at most 2 % between p / sum and the exact softmax of the scores."""
    trace: dict[str, np.ndarray] = {}
    for tokens in texts[:5]:
        encoder.run(classifier.model, tokens.ids, tokens.types, trace=trace)
        for name in ("layer.0", "layer.1"):
            p = trace[f"{name}.p"] / trace[f"{name}.sum"][..., None]
            exact = softmax(trace[f"{name}.scores"] * (np.log(2) / 256))
            assert (np.abs(p - exact).sum(axis=-1) / 2).mean() <= 0.02


def test_outlier_channels_by_hand() -> None:
    errors: dict[str, TensorError] = {}
    for floats, peaks in (
        ([[1.0, -7.9, 0.5, 1.0], [0.5, 0.1, -20.0, -1.0]], [1, 7.9, 20, 1]),
        ([[0.25, 1, 1, -80.0]], [1, 7.9, 20, 80]),
    ):
        codes = (np.array(floats) * 2).astype(np.int16)
        compare(errors, {"a.norm": np.array(floats)}, {"a.norm": codes}, TENSORS)
        assert errors["a.norm"].peaks.tolist() == peaks
        assert errors["a.norm"].outliers() == []  # the medians are 4.45 and 13.95
    errors["a.norm"].peaks = np.array([1, 8, 7.99, 1, 1])
    assert errors["a.norm"].outliers() == [(1, 8.0)]
    assert errors["a.norm"].to_json()["outlier_channels"] == [[1, 8.0]]


def test_lengths_are_no_channels_and_the_worst_comes_first() -> None:
    errors: dict[str, TensorError] = {}
    scores = np.ones((2, 3, 3))
    compare(errors, {"a.norm": scores}, {"a.norm": scores.astype(np.int16)}, TENSORS)
    assert errors["a.norm"].outliers() == []
    errors = {"good": TensorError(10, 0, 1e6, 1.0), "bad": TensorError(10, 5, 10.0, 1.0, 0.5, 0.1)}
    lines = table(errors).splitlines()
    assert lines[1].split() == ["bad", "0.1", "10.0", "5.0", "LSB", "5", "(50.0000%)"]
    assert lines[2].startswith("good")


@pytest.mark.parametrize(
    ("exact", "wrong"),
    [
        ([32767, -32768], 0),
        ([40000, 100], 0),  # the largest score alone saturates, and no other has a p
        ([40000, 32511], 1 / 3),  # 29 octaves apart, one afterwards
        ([40000, 39744], 1 / 2 - 1 / 3),  # an octave apart, and equal afterwards
        ([0, -40000], 0),  # far below the largest
        ([-32512, -33024], 1 / 3 - 1 / 5),  # two octaves apart, one afterwards
        ([-40000, -39744], 1 / 2 - 1 / 3),
    ],
)
def test_saturation_counts_by_what_it_does_to_the_softmax(exact: list[int], wrong: float) -> None:
    scores = np.array([[exact, [0, 0]]])
    change = softmax_change(scores, scores.clip(-(2**15), 2**15 - 1), np.ones((2, 2), bool))
    assert change[0, 0] == pytest.approx(wrong, abs=1e-8)
    assert change[0, 1] == 0


@pytest.mark.parametrize("case", ["plain", "shared", "window", "bias"])
def test_softmax_errors_of_a_trace(case: str) -> None:
    """Beside plain Python over the codes of Q and K, of scores that reach far beyond 16 bits."""
    rng = np.random.default_rng(len(case))
    window = Window(2, 1) if case == "window" else None
    bias = rng.integers(-4000, 4000, (4, 13)).astype(np.int16) if case == "bias" else None
    groups = 2 if case == "shared" else None
    layer = SimpleNamespace(attention=SimpleNamespace(score_m=40000, score_s=10), window=window)
    shape = SimpleNamespace(kv_heads=groups)
    model = SimpleNamespace(layers=[layer], shape=shape, position_bias=bias)
    q = rng.integers(-128, 128, (7, 8)).astype(np.int8)
    k = rng.integers(-20, 20, (7, 2 * (groups or 4))).astype(np.int8)
    exact, ended, wrong = np.zeros((4, 7, 7)), np.zeros((4, 7, 7), np.int16), np.zeros((4, 7))
    for h, i, j in np.ndindex(4, 7, 7):
        pair = 2 * (h % (groups or 4))
        products = [int(q[i, 2 * h + c]) * int(k[j, pair + c]) for c in range(2)]
        t = (sum(products) * 40000 + 512) // 1024
        b = 0 if bias is None else int(bias[h, j - i + 6])
        exact[h, i, j] = t + b
        ended[h, i, j] = max(-32768, min(32767, max(-32768, min(32767, t)) + b))
    for h, i in np.ndindex(4, 7):
        keys = [j for j in range(7) if window is None or -2 <= j - i <= 1]
        rows = [[float(x[h, i, j]) for j in keys] for x in (exact, ended)]
        p = [[2 ** ((score - max(row)) / 256) for score in row] for row in rows]
        wrong[h, i] = sum(abs(a / sum(p[0]) - b / sum(p[1])) for a, b in zip(*p, strict=True)) / 2
    assert (wrong > 0.1).any()
    assert (wrong < 1e-9).any()
    codes = {"layer.0.q": q, "layer.0.k": k, "layer.0.scores": ended}
    np.testing.assert_allclose(softmax_errors(model, 0, codes), wrong, atol=1e-9)
    layer.attention.score_s = 24  # nothing is at a limit
    quiet = {**codes, "layer.0.scores": ended >> 14}
    assert not softmax_errors(model, 0, quiet).any()


def test_a_row_of_biases_at_their_lower_end_is_wrong() -> None:
    """How far each of them reaches below 16 bits is not known."""
    layer = SimpleNamespace(attention=SimpleNamespace(score_m=32768, score_s=15), window=None)
    bias = np.array([[-32768, 0, -32768]], np.int16)
    shape = SimpleNamespace(kv_heads=None)
    model = SimpleNamespace(layers=[layer], shape=shape, position_bias=bias)
    zeros = np.zeros((2, 1), np.int8)
    codes = {"layer.0.q": zeros, "layer.0.k": zeros}
    codes["layer.0.scores"] = np.array([[[0, -32768], [-32768, 0]]], np.int16)
    assert softmax_errors(model, 0, codes).max() < 1e-30
    bias[0, 1] = -32768
    codes["layer.0.scores"][:] = -32768
    assert softmax_errors(model, 0, codes).tolist() == [[1, 1]]

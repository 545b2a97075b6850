import numpy as np
import pytest

from quant.measure.compare import TensorError, compare, saturated, table

TENSORS = {"a.norm": {"scale": 0.5, "bits": 16}, "a.x8": {"scale": 2.0, "bits": 8}}


def test_errors_by_hand() -> None:
    errors: dict[str, TensorError] = {}
    floats = {"a.norm": np.array([1.0, -2.0, 300.0])}
    integers = {
        "a.norm": np.array([2, -5, 600], np.int16),
        "a.x8": np.array([0, -1, 127], np.int8),
    }
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


def test_softmax_on_real_rows(classifier: object, texts: list) -> None:
    """Mean total variation of at most 2 % between p / sum and the exact softmax of the scores."""
    from golden import encoder
    from quant.model.float_model import softmax

    trace: dict[str, np.ndarray] = {}
    for tokens in texts[:5]:
        encoder.run(classifier.model, tokens.ids, tokens.types, trace=trace)
        for i in range(2):
            name = f"layer.{i}"
            nats = trace[f"{name}.scores"] * (np.log(2) / 256)
            p = trace[f"{name}.p"] / trace[f"{name}.sum"][..., None]
            variation = np.abs(p - softmax(nats)).sum(axis=-1) / 2
            assert variation.mean() <= 0.02


def test_outlier_channels_by_hand() -> None:
    floats = {"a.norm": np.array([[1.0, -7.9, 0.5, 1.0], [0.5, 0.1, -20.0, -1.0]])}
    codes = {"a.norm": (floats["a.norm"] * 2).astype(np.int16)}
    errors: dict[str, TensorError] = {}
    compare(errors, floats, codes, TENSORS)
    assert errors["a.norm"].peaks.tolist() == [1, 7.9, 20, 1]
    assert errors["a.norm"].outliers() == []  # the median is 4.45
    floats = {"a.norm": np.array([[0.25, 1, 1, -80.0]])}
    compare(errors, floats, {"a.norm": (floats["a.norm"] * 2).astype(np.int16)}, TENSORS)
    assert errors["a.norm"].peaks.tolist() == [1, 7.9, 20, 80]
    errors["a.norm"].peaks = np.array([1, 8, 7.99, 1, 1])
    assert errors["a.norm"].outliers() == [(1, 8.0)]
    assert errors["a.norm"].to_json()["outlier_channels"] == [[1, 8.0]]


def test_lengths_are_no_channels() -> None:
    errors: dict[str, TensorError] = {}
    scores = np.ones((2, 3, 3))
    compare(errors, {"a.norm": scores}, {"a.norm": scores.astype(np.int16)}, TENSORS)
    assert errors["a.norm"].outliers() == []


def test_table_lists_the_worst_first() -> None:
    errors = {
        "good": TensorError(10, 0, 1e6, 1.0, 0.5, 0.1),
        "bad": TensorError(10, 5, 10.0, 1.0, 0.5, 0.1),
    }
    lines = table(errors).splitlines()
    assert lines[1].split() == ["bad", "0.1", "10.0", "5.0", "LSB", "5", "(50.0000%)"]
    assert lines[2].startswith("good")


@pytest.mark.parametrize(
    ("row", "bias", "wrong"),
    [
        ([32766, -32767], None, 0),
        ([32767, -32768], None, 2),
        ([32767, 0], [0, 0, 0], 1),  # a product or a sum that saturates above
        ([100, 32666], [0, 1, -101], 1),  # the product alone, 32767 before its bias
        ([100, 32665], [0, 1, -101], 0),
        ([-30465, -32768], [0, 0, 0], 1),  # at the lower end, 2303 below the largest: p is not 0
        ([-30464, -32768], [0, 0, 0], 0),  # 2304 below: p is 0
        ([0, -32758], [0, 0, 10], 0),  # the product alone is at the lower end
        ([-31000, -32758], [0, 0, 10], 1),
        ([0, -300], [0, 0, -32768], 1),  # the bias alone
        ([2100, -300], [0, 0, -32768], 0),
    ],
)
def test_scores_that_saturate_where_it_counts(
    row: list[int], bias: list[int] | None, wrong: int
) -> None:
    """Query 0 of two tokens; of query 1 nothing is at a limit."""
    scores = np.array([[row, [0, 0]]], np.int16)
    table = None if bias is None else np.array([bias], np.int16)
    if table is not None:
        table[0, 0] = 0
    assert saturated(scores, table) == wrong

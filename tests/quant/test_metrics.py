from math import comb

import numpy as np
import pytest

from quant.measure.metrics import Scores, confusion_matrix, mcnemar, percent, points, wilson

LABELS = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
PREDICTIONS = np.array([0, 0, 0, 1, 1, 1, 1, 1, 0, 0])


def test_scores_by_hand() -> None:
    scores = Scores(confusion_matrix(LABELS, PREDICTIONS, 2))
    assert scores.confusion.tolist() == [[3, 1], [2, 4]]
    assert scores.accuracy == 0.7
    assert scores.precision.tolist() == [3 / 5, 4 / 5]
    assert scores.recall.tolist() == [3 / 4, 4 / 6]
    np.testing.assert_allclose(scores.f1, [6 / 9, 8 / 11])
    assert scores.to_json()["confusion"] == [[3, 1], [2, 4]]
    assert scores.to_json()["confusion_shares"] == [[3 / 4, 1 / 4], [2 / 6, 4 / 6]]


def test_what_is_not_defined_is_no_number() -> None:
    # Class 1 is never predicted, class 2 never true, class 3 neither.
    scores = Scores(confusion_matrix(np.array([0, 1]), np.array([0, 2]), 4))
    values = scores.to_json()
    assert values["precision"] == [1, None, 0, None]
    assert values["recall"] == [1, 0, None, None]
    assert values["f1"] == [1, 0, 0, None]
    assert values["confusion_shares"] == [[1, 0, 0, 0], [0, 0, 1, 0], [None] * 4, [None] * 4]
    assert [percent(value) for value in values["recall"]] == ["100.00%", "0.00%", "-", "-"]
    assert [points(0.5, 0.25), points(None, 1), points(1, None)] == ["-25.00", "-", "-"]


def test_mcnemar_by_enumeration() -> None:
    assert mcnemar(0, 0) == 1
    assert mcnemar(3, 3) == 1
    assert mcnemar(0, 5) == pytest.approx(2 / 32)
    assert (
        mcnemar(2, 9)
        == mcnemar(9, 2)
        == pytest.approx(2 * (comb(11, 0) + comb(11, 1) + comb(11, 2)) / 2**11)
    )


def test_wilson_against_published_values() -> None:
    # Newcombe (1998), Statistics in Medicine 17, table I, method 3.
    np.testing.assert_allclose(wilson(81, 263), (0.2553, 0.3662), atol=5e-5)
    np.testing.assert_allclose(wilson(0, 20), (0.0, 0.1611), atol=5e-5)

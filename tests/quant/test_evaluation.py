"""Several labels at once and numbers: the measures by hand, by SciPy and by scikit-learn."""

import numpy as np
import pytest

from quant.measure import metrics
from quant.measure.evaluation import LabelEvaluation, NumberEvaluation
from quant.measure.metrics import LabelScores

NAMES = ("a", "b", "c")
RIGHT = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]], bool)
SAID = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 0], [0, 0, 0]], bool)


def test_scores_of_several_labels_by_hand() -> None:
    values = LabelScores(RIGHT, SAID).to_json()
    assert values["exact"] == 2 / 4
    assert values["f1"] == [4 / 5, 2 / 3, None]
    assert values["precision"] == [2 / 3, 1, None]
    assert values["recall"] == [1, 1 / 2, None]
    assert values["micro_f1"] == 6 / 8
    assert values["macro_f1"] == pytest.approx((4 / 5 + 2 / 3) / 2)
    nothing = LabelScores(np.zeros((2, 2), bool), np.zeros((2, 2), bool)).to_json()
    assert (nothing["exact"], nothing["micro_f1"], nothing["macro_f1"]) == (1, None, None)


def test_scores_of_several_labels_are_those_of_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    right, said = rng.random((2, 50, 4)) < 0.4
    values = LabelScores(right, said).to_json()
    assert values["micro_f1"] == pytest.approx(sklearn.f1_score(right, said, average="micro"))
    assert values["macro_f1"] == pytest.approx(sklearn.f1_score(right, said, average="macro"))
    assert values["exact"] == pytest.approx(sklearn.accuracy_score(right, said))


def test_correlations_are_those_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(2)
    a, b = rng.integers(0, 9, 40) * 0.5, rng.normal(size=40)  # a has many ties
    assert metrics.pearson(a, b) == pytest.approx(stats.pearsonr(a, b)[0])
    assert metrics.spearman(a, b) == pytest.approx(stats.spearmanr(a, b)[0])
    assert metrics.ranks(np.array([2.0, 1, 2, 5])).tolist() == [2.5, 1, 2.5, 4]
    assert metrics.pearson(np.ones(3), np.arange(3.0)) is None


def test_determination_by_hand() -> None:
    exact = np.array([[0.0, 7], [2, 7], [4, 7]])
    values = exact + np.array([[1, 1], [0, 0], [-1, 0]])
    assert metrics.determination(values, exact).tolist() == [1 - 2 / 8, 1]


def test_several_labels() -> None:
    floats = np.array([[2, -1, -1], [0.5, 0.2, -3]], np.float32)
    integers = np.array([[200, -100, -100], [50, -1, 0]])
    targets = np.array([[1, 0, 0], [np.nan] * 3])
    result = LabelEvaluation(
        names=NAMES,
        float_logits=floats,
        integer_logits=integers,
        logit_scale=np.array([0.01, 0.01, 0.02]),
        tokens=9,
        errors={},
        traced=0,
        targets=targets,
    )
    values = result.to_json()
    assert (values["texts"], values["labelled_texts"]) == (2, 1)
    assert values["agreement"] == 5 / 6
    assert values["agreement_by_label"] == {"a": 1, "b": 0.5, "c": 1}
    assert values["changed_texts"] == 1
    assert values["golden"]["exact"] == values["float"]["exact"] == 1
    assert values["logit_difference"]["largest"] == pytest.approx(3)
    assert values["logit_difference"]["largest_lsb"] == pytest.approx(150)
    assert values["logit_difference"]["lsb"] == [0.01, 0.01, 0.02]
    text = str(result)
    assert "1 of 2 texts has no label: F1 is over 1" in text
    assert "agreement         83.33% of the labels, 1 text differs" in text
    assert "every label right   100.00%   100.00%    +0.00" in text


def test_numbers() -> None:
    floats = np.array([[1.0], [2], [3], [4]], np.float32)
    integers = np.array([[10], [20], [31], [40]])
    targets = np.array([[1.0], [2], [3], [np.nan]])
    result = NumberEvaluation(
        names=("stars",),
        float_logits=floats,
        integer_logits=integers,
        logit_scale=0.1,
        tokens=9,
        errors={},
        traced=0,
        targets=targets,
    )
    values = result.to_json()
    assert values["float"]["stars"] == {"pearson": pytest.approx(1), "spearman": 1, "mse": 0}
    assert values["golden"]["stars"]["mse"] == pytest.approx(0.01 / 3)
    assert values["golden_by_float"]["stars"]["r2"] == pytest.approx(1 - 0.01 / 5)
    assert values["golden_by_float"]["stars"]["mean_difference"] == pytest.approx(0.1 / 4)
    text = str(result)
    assert "1 of 4 texts has no label: correlation is over 3" in text
    assert "mse stars             0.00000     0.00333    +0.00333" in text
    assert "golden by float   stars: R^2 0.99800, mean difference 0.02500" in text

"""Measures by hand and by SciPy and scikit-learn; evaluations of each task by hand."""

import re
from dataclasses import replace
from math import comb

import numpy as np
import pytest

from quant.measure import metrics
from quant.measure.tasks import Evaluation
from quant.model.spec import EncoderSpec

RIGHT = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]], bool)
SAID = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
SIZES = dict.fromkeys(("layers", "hidden", "heads", "head_size", "ffn", "vocabulary"), 1)
SPEC = EncoderSpec(**SIZES, positions=1, labels=("no", "yes"))
FOUR = Evaluation(
    spec=SPEC,
    labels=np.array([0, 0, 1, 1]),
    float_logits=np.array([[2, 1], [2, 1], [1, 2], [2, 1.9]], np.float32),
    integer_logits=np.array([[200, 100], [100, 101], [100, 200], [200, 210]]),
    logit_scale=0.01,
    errors={},
    traced=0,
    texts=(),
)


def test_scores_of_classes_by_hand() -> None:
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
    said = np.array([0, 0, 0, 1, 1, 1, 1, 1, 0, 0])
    values = metrics.class_scores(metrics.confusion_matrix(labels, said, 2))
    assert values["confusion"] == [[3, 1], [2, 4]]
    assert (values["accuracy"], values["precision"]) == (0.7, [3 / 5, 4 / 5])
    assert (values["recall"], values["f1"]) == ([3 / 4, 4 / 6], [6 / 9, 8 / 11])
    # Class 1 is never predicted, class 2 never true, class 3 neither.
    values = metrics.class_scores(metrics.confusion_matrix(np.array([0, 1]), np.array([0, 2]), 4))
    assert values["precision"] == [1, None, 0, None]
    assert values["recall"] == [1, 0, None, None]
    assert values["f1"] == [1, 0, 0, None]


def test_scores_of_several_labels() -> None:
    values = metrics.label_scores(RIGHT, SAID)
    assert (values["exact"], values["micro_f1"]) == (2 / 4, 6 / 8)
    assert values["f1"] == [4 / 5, 2 / 3, None]
    assert (values["precision"], values["recall"]) == ([2 / 3, 1, None], [1, 1 / 2, None])
    assert values["macro_f1"] == pytest.approx((4 / 5 + 2 / 3) / 2)
    nothing = metrics.label_scores(np.zeros((2, 2), bool), np.zeros((2, 2), bool))
    assert (nothing["exact"], nothing["micro_f1"], nothing["macro_f1"]) == (1, None, None)
    sklearn = pytest.importorskip("sklearn.metrics")
    right, said = np.random.default_rng(1).random((2, 50, 4)) < 0.4
    values = metrics.label_scores(right, said)
    for average in ("micro", "macro"):
        expected = sklearn.f1_score(right, said, average=average)
        assert values[f"{average}_f1"] == pytest.approx(expected)


def test_statistics() -> None:
    a, b = np.array([1.0, 2, 2, 4]), np.array([1.0, 3, 2, 9])
    assert metrics.pearson(a, 5 - 2 * a) == pytest.approx(-1)
    assert metrics.spearman(a, b) == pytest.approx(
        np.corrcoef([1, 2.5, 2.5, 4], [1, 3, 2, 4])[0, 1]
    )
    assert metrics.pearson(np.ones(3), np.arange(3.0)) is None
    assert metrics.spearman(np.ones(1), np.ones(1)) is None
    exact = np.array([[0.0, 7], [2, 7], [4, 7]])
    values = exact + np.array([[1, 1], [0, 0], [-1, 0]])
    assert metrics.determination(values, exact).tolist() == [1 - 2 / 8, 1]
    assert (metrics.mcnemar(0, 0), metrics.mcnemar(3, 3)) == (1, 1)
    both = 2 * (comb(11, 0) + comb(11, 1) + comb(11, 2)) / 2**11
    assert (metrics.mcnemar(0, 5), metrics.mcnemar(2, 9), metrics.mcnemar(9, 2)) == pytest.approx(
        (2 / 32, both, both)
    )
    # Newcombe (1998), Statistics in Medicine 17, table I, method 3.
    np.testing.assert_allclose(metrics.wilson(81, 263), (0.2553, 0.3662), atol=5e-5)
    np.testing.assert_allclose(metrics.wilson(0, 20), (0.0, 0.1611), atol=5e-5)


def test_directions() -> None:
    np.testing.assert_allclose(
        metrics.unit(np.array([[3, -4], [0, 0]])), [[0.6, -0.8], [0, 0]], atol=1e-15
    )
    a = np.array([[2.0, 0], [1, 1], [5, 0], [3, 4]])
    b = np.array([[0.5, 0], [-1, 1], [-2, 0], [4, 3]])
    np.testing.assert_allclose(metrics.cosines(a, b), [1, 0, -1, 24 / 25], atol=1e-15)
    assert metrics.distance(a[:2], np.array([[0, 3.0], [7, 7]])) == pytest.approx(np.sqrt(2) / 2)


def test_the_nearest_is_never_the_row_itself() -> None:
    rows = np.random.default_rng(3).normal(size=(40, 5))
    rows[31] = 9 * rows[4]  # as long as it likes, it points the same way
    expected = []
    for i, a in enumerate(rows):
        similar = [a @ b / np.sqrt((a @ a) * (b @ b)) for b in rows]
        similar[i] = -2
        expected.append(int(np.argmax(similar)))
    assert metrics.nearest(rows).tolist() == expected
    assert (expected[4], expected[31]) == (31, 4)


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("O O", []),
        ("B-A I-A O", [("A", 0, 1)]),
        ("B-A B-A", [("A", 0, 0), ("A", 1, 1)]),
        ("B-A I-B", [("A", 0, 0), ("B", 1, 1)]),
        ("O I-A I-A", [("A", 1, 2)]),
        ("B-A I-A E-A S-B B-B E-B", [("A", 0, 2), ("B", 3, 3), ("B", 4, 5)]),
        ("B-A E-A I-A", [("A", 0, 1), ("A", 2, 2)]),
        ("U-A U-A B-C L-C", [("A", 0, 0), ("A", 1, 1), ("C", 2, 3)]),
        ("I-A S-A I-A", [("A", 0, 0), ("A", 1, 1), ("A", 2, 2)]),
        ("B-two-parts I-two-parts", [("two-parts", 0, 1)]),
        ("", []),
    ],
)
def test_entities_as_conlleval_reads_them(tags: str, found: list) -> None:
    assert metrics.entities(tags.split()) == found


def test_scores_of_entities() -> None:
    """Of 4 entities 2 are found; one is too long, one of another type, and one is made up."""
    right = ["B-A I-A O B-B", "B-A O B-B O"]
    said = ["B-A I-A O B-B", "B-A I-A B-A B-A"]
    found = metrics.entity_scores([row.split() for row in right], [row.split() for row in said])
    assert list(found.values()) == [4, 2 / 5, 2 / 4, 4 / 9, {"A": 2 / 6, "B": 2 / 3}]
    assert (
        metrics.entity_scores([["B-A"], ["O"]], [["O"], ["B-A"]])["f1"] == 0
    )  # those of another text
    assert list(metrics.entity_scores([["O"]], [["O"]]).values()) == [0, None, None, None, {}]
    tags = ["O B-A I-A", "B-A I-A", "O S-A E-A U-B L-B"]
    assert all(metrics.tagged(names.split()) for names in tags)
    assert not any(metrics.tagged(names.split()) for names in ("O", "NN VB", "O A", "O B-"))


def test_classes_by_hand() -> None:
    values = FOUR.to_json()
    assert values["float"]["accuracy"] == values["golden"]["accuracy"] == 0.75
    assert values["float"]["confusion"] == [[2, 0], [1, 1]]
    assert values["golden"]["confusion"] == [[1, 1], [0, 2]]
    assert values["agreement"] == 0.5
    flips = {"changed": 2, "only_float_right": 1, "only_golden_right": 1, "mcnemar_p": 1.0}
    assert values["flips"] == flips
    difference = values["logit_difference"]
    assert difference["largest"] == pytest.approx(1.0)
    assert difference["largest_lsb"] == pytest.approx(100)
    assert difference["mean"] == pytest.approx((1.0 + 0.01 + 0.2) / 8)
    text = metrics.shown(values)
    assert re.search(r"^accuracy  +float 0.75; golden 0.75$", text, re.MULTILINE)
    assert re.search(r"^flips changed  +2$", text, re.MULTILINE)
    assert "confusion" not in text
    some = replace(FOUR, labels=np.array([0, -1, 1, -1]))
    values = some.to_json()
    assert (values["texts"], values["labelled_texts"]) == (4, 2)
    assert values["float"]["confusion"] == values["golden"]["confusion"] == [[1, 0], [0, 1]]
    assert replace(some, labels=-np.ones(4)).to_json()["float"] is None


def test_several_labels_by_hand() -> None:
    result = replace(
        FOUR,
        spec=replace(SPEC, labels=("a", "b", "c"), task="multi-label"),
        float_logits=np.array([[2, -1, -1], [0.5, 0.2, -3]], np.float32),
        integer_logits=np.array([[200, -100, -100], [50, -1, 0]]),
        logit_scale=np.array([0.01, 0.01, 0.02]),
        labels=np.array([[1, 0, 0], [np.nan] * 3]),
    )
    values = result.to_json()
    assert (values["texts"], values["labelled_texts"]) == (2, 1)
    assert (values["agreement"], values["changed_texts"]) == (5 / 6, 1)
    assert values["agreement_by_label"] == {"a": 1, "b": 0.5, "c": 1}
    assert values["golden"]["exact"] == values["float"]["exact"] == 1
    assert values["logit_difference"]["largest"] == pytest.approx(3)
    assert values["logit_difference"]["largest_lsb"] == pytest.approx(150)


def test_numbers_by_hand() -> None:
    result = replace(
        FOUR,
        float_logits=np.array([[1.0], [2], [3], [4]], np.float32),
        integer_logits=np.array([[10], [20], [31], [40]]),
        labels=np.array([[1.0], [2], [3], [np.nan]]),
        spec=replace(SPEC, labels=("stars",), task="regression"),
        logit_scale=0.1,
    )
    values = result.to_json()
    exact = {"pearson": pytest.approx(1), "spearman": pytest.approx(1), "mse": 0}
    assert values["float"]["stars"] == exact
    assert values["golden"]["stars"]["mse"] == pytest.approx(0.01 / 3)
    assert values["golden_by_float"]["stars"]["r2"] == pytest.approx(1 - 0.01 / 5)
    assert values["golden_by_float"]["stars"]["mean_difference"] == pytest.approx(0.1 / 4)
    assert values["labelled_texts"] == 3

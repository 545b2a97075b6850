"""The report of the first difference."""

import numpy as np
import pytest

from tb.compare import Comparison, Mismatch

P = np.arange(24).reshape(2, 3, 4)
AXES = ("tile", "index", "lane")


def test_equal_tensors() -> None:
    comparison = Comparison()
    assert comparison.tensor("p", P, P.copy(), AXES) == 0
    comparison.check()
    assert (comparison.compared, comparison.first) == ({"p": 24}, None)
    assert not comparison.mismatches.total()


def test_first_difference_in_order() -> None:
    wrong = P.copy()
    wrong[0, 2, 1] = -5
    wrong[1, 0, 0] = 7
    comparison = Comparison()
    comparison.tensor("sum", P[0, 0], P[0, 0], ("lane",))
    assert comparison.tensor("layer.0.p", P, wrong, AXES) == 2
    with pytest.raises(Mismatch) as error:
        comparison.check()
    assert str(error.value) == (
        "2 of 28 values differ; first layer.0.p[tile 0, index 2, lane 1] is -5, golden says 9"
    )


def test_first_difference_in_time() -> None:
    """Tile 1 was computed before tile 0."""
    wrong = P.copy()
    wrong[0, 0, 3] = wrong[1, 1, 2] = 99
    comparison = Comparison()
    comparison.tensor("p", P, wrong, AXES, np.array([200, 100]).reshape(2, 1, 1))
    assert str(comparison.first) == "p[tile 1, index 1, lane 2] in cycle 100 is 99, golden says 18"
    comparison.tensor("later", P, wrong, AXES)
    assert comparison.first is not None
    assert comparison.first.tensor == "p"
    assert comparison.mismatches == {"p": 2, "later": 2}
    earlier = np.array([90, 300]).reshape(2, 1, 1)
    comparison.tensor("q", P, wrong, AXES, earlier)
    assert comparison.first.tensor == "q"
    assert comparison.first.cycle == 90


def test_missing_words() -> None:
    with pytest.raises(
        Mismatch, match=r"p: hardware gave the shape \[1, 3, 4\], golden \[2, 3, 4\]"
    ):
        Comparison().tensor("p", P, P[:1], AXES)


def test_nothing_compared() -> None:
    with pytest.raises(Mismatch, match="nothing was compared"):
        Comparison().check()

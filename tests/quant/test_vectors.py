import numpy as np
import pytest

from quant.measure import vectors
from quant.measure.vectors import cosines, distance, ndcg, nearest, of_pairs, unit


def test_a_unit_vector_has_length_one_and_the_same_direction() -> None:
    found = unit(np.array([[3, -4], [0, 0]], np.int32))
    np.testing.assert_allclose(found, [[0.6, -0.8], [0, 0]], atol=1e-15)


def test_cosines_of_rows() -> None:
    a = np.array([[2.0, 0], [1, 1], [5, 0], [3, 4]])
    b = np.array([[0.5, 0], [-1, 1], [-2, 0], [4, 3]])
    np.testing.assert_allclose(cosines(a, b), [1, 0, -1, 24 / 25], atol=1e-15)


def test_the_distance_is_that_of_the_directions() -> None:
    a, b = np.array([[2.0, 0], [0, 7]]), np.array([[0, 0.1], [0, 3.0]])
    assert distance(a, b) == pytest.approx(np.sqrt(2) / 2)


@pytest.mark.parametrize("block", [1, 7, 256])
def test_the_nearest_is_never_the_row_itself(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "BLOCK", block)
    rows = np.random.default_rng(3).normal(size=(40, 5))
    rows[31] = 9 * rows[4]  # as long as it likes, it points the same way
    expected = []
    for i, a in enumerate(rows):
        similar = [a @ b / np.sqrt((a @ a) * (b @ b)) for b in rows]
        similar[i] = -2
        expected.append(int(np.argmax(similar)))
    assert nearest(rows).tolist() == expected
    assert (expected[4], expected[31]) == (31, 4)


def test_the_cosines_of_pairs() -> None:
    rows = np.array([[2.0, 0], [3, 3], [0, -1]])
    np.testing.assert_allclose(of_pairs(rows), [0.5**0.5, 0, -(0.5**0.5)], atol=1e-15)


@pytest.mark.parametrize(("depth", "expected"), [(1, 1 / 3), (2, (1 + 1 / np.log2(3)) / 3)])
def test_ndcg_by_hand(depth: int, expected: float) -> None:
    """The right document comes first, second and third."""
    documents = np.array([[1.0, 0], [0, 2], [3, 3]])
    queries = np.array([[5.0, 0.1], [0.1, 0.2], [-1, 0.5]])
    assert ndcg(queries, documents, np.array([0, 1, 0]), depth) == pytest.approx(expected)

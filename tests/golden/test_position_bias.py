import numpy as np
import pytest

from golden.position_bias import add_position_bias


def test_the_column_is_the_distance_of_key_and_query() -> None:
    """Two tokens of a model of three; the first row is query 0's."""
    table = np.array([[1, 2, 3, 4, 5], [-1, -2, -3, -4, -5]], np.int16)
    scores = np.array([[[100, 200], [300, 400]]] * 2, np.int16)
    expected = [[[103, 204], [302, 403]], [[97, 196], [298, 397]]]
    assert add_position_bias(scores, table).tolist() == expected


@pytest.mark.parametrize(
    ("score", "bias", "total"),
    [
        (32767, 1, 32767),
        (32766, 1, 32767),
        (32767, 32767, 32767),
        (-32768, -1, -32768),
        (-32767, -1, -32768),
        (-32768, -32768, -32768),
        (-32768, 32767, -1),
    ],
)
def test_the_sum_saturates(score: int, bias: int, total: int) -> None:
    found = add_position_bias(np.full((1, 1, 1), score, np.int16), np.full((1, 1), bias, np.int16))
    assert (found.dtype, found.item()) == (np.int16, total)

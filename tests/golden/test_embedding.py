import numpy as np
import pytest

from golden.embedding import embed
from golden.model import Embedding


@pytest.mark.parametrize(("a_t", "a_p"), [(129, 129), (255, 3), (3, 255), (1, 1)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_extremes_fit(a_t: int, a_p: int, sign: int) -> None:
    code = np.full((1, 3), 127 * sign, np.int8)
    x = embed(np.array([0]), np.array([0]), Embedding(code, code[None], a_t, a_p))
    assert x.dtype == np.int16
    assert x.tolist() == [[127 * sign * (a_t + a_p)] * 3]


def test_rows_by_id_type_and_offset() -> None:
    token = np.arange(10, dtype=np.int8).reshape(5, 2)
    position = np.arange(24, dtype=np.int8).reshape(2, 6, 2) * 4
    embedding = Embedding(token, position, 100, 7)
    x = embed(np.array([4, 0, 4]), np.array([0, 1, 1]), embedding, offset=2)
    rows = [(4, 0, 2), (0, 1, 3), (4, 1, 4)]
    expected = [
        [100 * int(token[i, c]) + 7 * int(position[t, p, c]) for c in (0, 1)] for i, t, p in rows
    ]
    assert x.tolist() == expected

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


@pytest.mark.parametrize(("a_t", "a_p"), [(128, 128), (255, 1), (1, 255)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_extremes_of_sixteen_bits_fit(a_t: int, a_p: int, sign: int) -> None:
    code = np.full((1, 3), 127 * sign, np.int8)
    tables = Embedding(code, code[None], a_t, a_p, token_low=code, position_low=code[None])
    x = embed(np.array([0]), np.array([0]), tables)
    assert x.dtype == np.int16
    assert x.tolist() == [[127 * sign * 258] * 3]


def test_low_tables_are_added() -> None:
    rng = np.random.default_rng(2)
    token, token_low = rng.integers(-127, 128, (2, 5, 3), np.int8)
    position, position_low = rng.integers(-127, 128, (2, 2, 6, 3), np.int8)
    tables = Embedding(token, position, 100, 7, token_low=token_low, position_low=position_low)
    x = embed(np.array([4, 0, 4]), np.array([0, 1, 1]), tables, offset=2)
    rows = [(4, 0, 2), (0, 1, 3), (4, 1, 4)]
    expected = [
        [
            100 * int(token[i, c])
            + 7 * int(position[t, p, c])
            + int(token_low[i, c])
            + int(position_low[t, p, c])
            for c in range(3)
        ]
        for i, t, p in rows
    ]
    assert x.tolist() == expected


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

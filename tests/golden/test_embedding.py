import numpy as np
import pytest

from golden.embedding import embed
from golden.model import Embedding


@pytest.mark.parametrize(
    ("a_t", "a_p", "wide"),
    [
        *((129, 129, False), (255, 3, False), (3, 255, False), (1, 1, False)),
        *((128, 128, True), (255, 1, True), (1, 255, True)),
    ],
)
@pytest.mark.parametrize("sign", [-1, 1])
def test_extremes_fit(a_t: int, a_p: int, wide: bool, sign: int) -> None:
    code = np.full((1, 3), 127 * sign, np.int8)
    low = {"token_low": code, "position_low": code[None]} if wide else {}
    x = embed(np.array([0]), np.array([0]), Embedding(code, code[None], a_t, a_p, **low))
    assert x.dtype == np.int16
    assert x.tolist() == [[127 * sign * (a_t + a_p + 2 * wide)] * 3]


@pytest.mark.parametrize("wide", [False, True])
def test_rows_by_id_type_and_offset(wide: bool) -> None:
    rng = np.random.default_rng(2)
    token, token_low = rng.integers(-127, 128, (2, 5, 3), np.int8)
    position, position_low = rng.integers(-127, 128, (2, 2, 6, 3), np.int8)
    low = {"token_low": token_low, "position_low": position_low} if wide else {}
    tables = Embedding(token, position, 100, 7, **low)
    x = embed(np.array([4, 0, 4]), np.array([0, 1, 1]), tables, offset=2)
    for row, (i, t, p) in zip(x.tolist(), [(4, 0, 2), (0, 1, 3), (4, 1, 4)], strict=True):
        expected = 100 * token[i].astype(int) + 7 * position[t, p].astype(int)
        if wide:
            expected += token_low[i].astype(int) + position_low[t, p]
        assert row == expected.tolist()

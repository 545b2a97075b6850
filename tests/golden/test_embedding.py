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

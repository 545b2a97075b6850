import numpy as np
import pytest

from golden.matmul import matmul


def test_extremes_stay_exact() -> None:
    k = 65_793
    a, b = np.full((1, k), 255, np.uint8), np.full((k, 1), -128, np.int8)
    assert matmul(a, b).tolist() == [[-k * 255 * 128]]
    low = np.full((1, 4096), -128, np.int8)
    assert matmul(low, low.T).tolist() == [[4096 << 14]]


def test_equals_python_integers() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-128, 128, (3, 7, 5), dtype=np.int8)
    b = rng.integers(-128, 128, (3, 5, 4), dtype=np.int8)
    acc = matmul(a, b)
    assert acc.dtype == np.int32
    for x, y, z in zip(a.tolist(), b.tolist(), acc.tolist()):
        assert z == [[sum(p * q for p, q in zip(row, col)) for col in zip(*y)] for row in x]


def test_refuses_what_may_overflow() -> None:
    a = np.zeros((1, 65_794), np.int8)
    with pytest.raises(ValueError, match=r"K = 65794 may overflow int32; allowed 1\.\.65793"):
        matmul(a, a.T)


def test_refuses_other_types() -> None:
    a = np.zeros((2, 2), np.int16)
    with pytest.raises(ValueError, match="b has dtype int16; allowed int8 and uint8"):
        matmul(a.astype(np.int8), a)

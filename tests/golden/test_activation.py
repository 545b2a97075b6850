import numpy as np

from golden.activation import lookup


def test_every_code_reads_its_entry() -> None:
    table = np.random.default_rng(0).integers(-128, 128, 256, dtype=np.int8)
    codes = np.arange(-128, 128, dtype=np.int8).reshape(2, 128)
    y = lookup(table, codes)
    assert y.dtype == np.int8
    assert y.tolist() == [[int(table[int(c) % 256]) for c in row] for row in codes]


def test_by_hand() -> None:
    table = np.zeros(256, np.int8)
    table[[0, 127, 128, 255]] = 1, 2, 3, 4
    assert lookup(table, np.array([0, 127, -128, -1, 5], np.int8)).tolist() == [1, 2, 3, 4, 0]


def test_a_strided_operand() -> None:
    table = np.arange(256).astype(np.uint8).view(np.int8)
    x = np.arange(-64, 64, dtype=np.int8).reshape(8, 16)
    assert (lookup(table, x.T) == x.T).all()

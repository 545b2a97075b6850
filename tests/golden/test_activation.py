import numpy as np

from golden.activation import lookup


def test_every_code_reads_its_entry() -> None:
    table = np.random.default_rng(0).integers(-128, 128, 256, dtype=np.int8)
    codes = np.arange(-128, 128, dtype=np.int8).reshape(2, 128)
    y = lookup(table, codes)
    assert y.dtype == np.int8
    assert y.tolist() == [[int(table[int(c) % 256]) for c in row] for row in codes]

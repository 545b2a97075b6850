import numpy as np

from golden.leading_one import leading_one


def test_every_power_of_two_and_its_neighbours() -> None:
    x = [(1 << bit) + d for bit in range(1, 61) for d in (-1, 0, 1)] + [1, 2, 3, (1 << 62) - 1]
    assert leading_one(np.array(x)).tolist() == [value.bit_length() - 1 for value in x]

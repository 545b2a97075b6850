"""Packing of lanes."""

import numpy as np
import pytest

from tb.packing import pack, token_words, unpack


def test_element_0_in_the_low_bits() -> None:
    assert pack([1, -1, 2], 4) == 0x2F1
    assert unpack(0x2F1, 4, 3, signed=True) == [1, -1, 2]
    assert unpack(0x2F1, 4, 3, signed=False) == [1, 15, 2]


@pytest.mark.parametrize(("value", "width"), [(256, 8), (-129, 8), (2, 1)])
def test_a_value_that_does_not_fit(value: int, width: int) -> None:
    with pytest.raises(ValueError, match=f"element 1 is {value}: it does not fit {width} bits"):
        pack([0, value], width)


def test_bits_beyond_the_last_element() -> None:
    with pytest.raises(ValueError, match="0x100 does not fit 2 elements of 4 bits"):
        unpack(0x100, 4, 2, signed=False)


def test_a_token_is_id_type_and_attend_bit() -> None:
    words = token_words([1, 0xFFFFFF, 5], [0, 1, 0], [1, 0, 1])
    assert words.tolist() == [0x2000001, 0x1FFFFFF, 0x2000005]
    assert words.dtype == np.uint32
    assert token_words([7]).tolist() == [0x2000007]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([],), "the sequence is empty"),
        (([1, 2], [0]), "types has 1 entries for 2 ids"),
        (([1], None, [1, 1]), "attend has 2 entries for 1 ids"),
        (([1, 1 << 24],), r"ids holds 16777216: it must lie in 0\.\.16777215"),
        (([1], [2]), r"types holds 2: it must lie in 0\.\.1"),
        (([1], [0], [-1]), r"attend holds -1: it must lie in 0\.\.1"),
    ],
)
def test_a_token_that_does_not_fit(given: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        token_words(*given)

"""Arrays of lanes as the packed vectors that Verilog shows: element 0 in the low bits."""

from collections.abc import Iterable

import numpy as np


def pack(values: Iterable[int], width: int) -> int:
    """The vector of the values, `width` bits each; a negative value as two's complement.

    Raises
    ------
    ValueError
        A value needs more bits; the message names it, its place and the bits there are.
    """
    word = 0
    for place, value in enumerate(values):
        if not -(1 << width - 1) <= value < 1 << width:
            raise ValueError(f"element {place} is {value}: it does not fit {width} bits")
        word |= (int(value) & (1 << width) - 1) << place * width
    return word


def unpack(word: int, width: int, length: int, signed: bool) -> list[int]:
    """The `length` elements of a vector, `width` bits each.

    Raises
    ------
    ValueError
        The vector has bits beyond its last element.
    """
    if word < 0 or word >> width * length:
        raise ValueError(f"{word:#x} does not fit {length} elements of {width} bits")
    elements = [word >> place * width & (1 << width) - 1 for place in range(length)]
    if signed:
        elements = [e - (1 << width) if e >> width - 1 else e for e in elements]
    return elements


def pack_rows(rows: np.ndarray, width: int) -> list[int]:
    """One vector for each row of an integer array [words, length]."""
    return [pack(row, width) for row in rows.tolist()]

"""The contents of a word of a stream or a memory."""

from __future__ import annotations

from amaranth.hdl import signed, unsigned
from amaranth.lib import data

TOKEN = data.StructLayout(
    {
        "id": unsigned(24),
        "type": unsigned(1),
        "attend": unsigned(1),
        "ends": unsigned(1),
        "unused": unsigned(5),
    }
)
"""A word of the tokens stream: id[23:0], type[24], attend[25], ends[26]: its sequence's last."""

TOKEN_WORD = data.StructLayout({"data": TOKEN, "last": unsigned(1)})

HALVES = data.StructLayout({"low": signed(8), "high": signed(8)})
"""A wide operand: 2^8 * high + low."""


def stream_word(width: int) -> data.StructLayout:
    """A word of the command stream: M bytes, the first in the lowest bits, and `last`."""
    return data.StructLayout({"data": unsigned(8 * width), "last": unsigned(1)})


def row_word(lanes: int) -> data.StructLayout:
    """A word of an embedding row: N int8 values, and `last` with the row's last."""
    return data.StructLayout({"data": int8_word(lanes), "last": unsigned(1)})


def int8_word(lanes: int) -> data.ArrayLayout:
    """N int8 values, one a lane."""
    return data.ArrayLayout(signed(8), lanes)


def activation_word(lanes: int, precise: bool) -> data.ArrayLayout:
    """A word of X8 or a bank: int8 values, or halves of 16-bit ones, the high half above."""
    return data.ArrayLayout(HALVES, lanes) if precise else int8_word(lanes)


def int16_word(lanes: int) -> data.ArrayLayout:
    """N int16 values, one a lane."""
    return data.ArrayLayout(signed(16), lanes)

"""Rotary positions: pairs of columns turned by the angles of their rows, from a memory."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, signed

from rtl.interface.config import power_of_two
from rtl.interface.word import int8_word, int16_word
from rtl.primitives.members import In, Out, Unit, copied
from rtl.primitives.memory import Memory, WritePort
from rtl.primitives.pipeline import delay, register
from rtl.primitives.saturate import saturate

SHIFT = 21  # 7 bits of u below the result's unit, 14 of cos and sin


class Rotary(Unit):
    """(o[2i], o[2i + 1]) = (u[2i] cos - u[2i + 1] sin, u[2i + 1] cos + u[2i] sin) in each lane.

    docs/numerics.md section 6: both sums are shifted right by 21 with rounding and saturated to 8
    bits. cos and sin are those of the lane's row and of the pair.

    Columns come one a cycle, the second of a pair right behind the first; no valid, and between
    pairs there may be any columns, whose o means nothing. The memory's words are N values of a row
    tile: those of channel 2i are cos of pair i, those of channel 2i + 1 sin. Both columns of a pair
    are multiplied by both: their words are read with them, one each. Multipliers: 2 * lanes.
    Memory: 2 * pairs * 2^k words of 16 N bits, 2^k the power of two from R on.

    Parameters
    ----------
    lanes
        Lanes, 2 or more.
    pairs
        Pairs of channels of all tables.
    row_tiles
        R: row tiles of the longest sequence.

    Attributes
    ----------
    ahead
        Cycles from row and channel to u: 3.
    latency
        Cycles from u to o: 5.
    """

    ahead = Memory.latency + 1
    latency = 5

    def __init__(self, lanes: int, pairs: int, row_tiles: int) -> None:
        self.lanes, self.channels, self.row_words = lanes, 2 * pairs, power_of_two(row_tiles)
        super().__init__(
            write=In(
                WritePort(range(self.channels * self.row_words), int16_word(lanes)),
                "Row tile, above it the channel; not while there are columns. -2^14..2^14.",
            ),
            row=In(range(self.row_words), "Row tile of the column, `ahead` cycles before u."),
            channel=In(range(self.channels), "2i or 2i + 1, `ahead` cycles before u."),
            u=In(int16_word(lanes)),
            o=Out(int8_word(lanes)),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.table = table = Memory(int16_word(self.lanes), self.channels * self.row_words)
        m.d.comb += [
            table.read.address.eq(Cat(self.row, self.channel)),
            *copied(table.write, self.write),
        ]
        # A pair is complete: with the word, which is then sin, and with the second's products.
        second = delay(m, self.channel[0], Memory.latency, "second")
        complete = second & ~register(m, second, "second_before")
        turns = delay(m, complete, 3, "turns")
        for lane in range(self.lanes):
            # Both stay for both columns of the pair.
            word = table.read.data[lane]
            waiting = register(m, word, f"waiting_{lane}")
            cos, sin = (
                Signal(signed(16), name=f"{name}_{lane}", reset_less=True)
                for name in ("cos", "sin")
            )
            with m.If(complete):
                m.d.sync += [cos.eq(waiting), sin.eq(word)]
            # Cycle 1: operands of the multipliers.
            u = register(m, self.u[lane], f"u_{lane}")
            # Cycle 2: products of the column, and behind them those of the one before it.
            by_cos = register(m, u * cos, f"by_cos_{lane}")
            by_sin = register(m, u * sin, f"by_sin_{lane}")
            before = register(m, by_cos, f"by_cos_before_{lane}")
            sins = delay(m, by_sin, 2, f"by_sin_before_{lane}")
            # Cycle 4: the first column's sum once the second's products are there, then its own.
            total = Signal(signed(32), name=f"total_{lane}", reset_less=True)
            m.d.sync += total.eq(before + Mux(turns, -by_sin, sins))
            # Cycle 5.
            rounded = ((total >> (SHIFT - 1)) + 1) >> 1
            m.d.comb += self.o[lane].eq(register(m, saturate(rounded, 8), f"turned_{lane}"))
        return m

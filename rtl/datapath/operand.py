"""The int8 operand of a channel: a rounding shift of its int16, taken before that saturates."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.primitives.saturate import end, fits, saturate

SHIFTS = 8


class Operand(wiring.Component):
    """o = saturate(round_shift(saturate(i, 16), s), 8), 1 <= s <= 8. One word a cycle, no valid.

    The shift by s - 1 leaves a last bit that is half a unit of the result; it is saturated to nine
    bits. What the saturation to 16 bits would cut, that one cuts, since 32767 >> 7 and -32768 >> 7
    are the ends of nine bits: it can lie beside the other, and not behind it.

    Members
    -------
    i : In, signed(24)
    s : In, 3
        8 as 0.
    o : Out, signed(8)

    Attributes
    ----------
    latency
        Cycles from i and s to o: 2.
    """

    latency = 2

    def __init__(self) -> None:
        super().__init__({"i": In(signed(24)), "s": In(3), "o": Out(signed(8))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Cycle 1: shift and saturate. Where a value is too long for nine bits, its end hangs on the
        # sign alone: one choice behind the eight shifts.
        kept, short = Signal(9), Signal()
        halves = Signal(signed(9), reset_less=True)
        with m.Switch(self.s):
            for code in range(SHIFTS):
                shifted = self.i >> (code - 1) % SHIFTS
                with m.Case(code):
                    m.d.comb += [kept.eq(shifted[:9]), short.eq(fits(shifted, 9))]
        m.d.sync += halves.eq(Mux(short, kept, end(self.i[-1], 9)))
        # Cycle 2: round; 128 saturates.
        rounded = Signal(signed(9))
        result = Signal(signed(8), reset_less=True)
        m.d.comb += rounded.eq(halves[1:].as_signed() + halves[0])
        m.d.sync += result.eq(saturate(rounded, 8))
        m.d.comb += self.o.eq(result)
        return m

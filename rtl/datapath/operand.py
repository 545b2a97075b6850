"""The int8 operand of a channel: a rounding shift of its int16, taken before that saturates."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed

from rtl.primitives.members import In, Out, Unit
from rtl.primitives.pipeline import register
from rtl.primitives.saturate import end, saturate

SHIFTS = 8


class Operand(Unit):
    """o = saturate(round_shift(saturate(i, 16), s), 8), 1 <= s <= 8. One word a cycle, no valid.

    The shift by s - 1 leaves a last bit that is half a unit of the result; it is saturated to nine
    bits. What the saturation to 16 bits would cut, that one cuts, since 32767 >> 7 and -32768 >> 7
    are the ends of nine bits: it can lie beside the other, and not behind it.

    Attributes
    ----------
    latency
        Cycles from i and s to o: 2.
    """

    latency = 2

    def __init__(self) -> None:
        super().__init__(i=In(signed(24)), s=In(3, "8 as 0."), o=Out(signed(8)))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Cycle 1: shift. Whether nine bits hold the result is asked of all bits above them at once,
        # each for the shifts that leave it there, and not of what each shift leaves.
        sign = self.i[-1]
        kept = Signal(signed(9), reset_less=True)
        with m.Switch(self.s):
            for code in range(SHIFTS):
                with m.Case(code):
                    m.d.sync += kept.eq((self.i >> dropped(code))[:9])
        longer = [
            (bit != sign) & self.s.matches(*(s for s in range(SHIFTS) if dropped(s) + 8 <= place))
            for place, bit in enumerate(self.i)
            if place >= 8
        ]
        short = register(m, ~Cat(*longer).any(), "short")
        negative = register(m, sign, "negative")
        # Cycle 2: round and saturate; 128 does, too.
        rounded = Signal(signed(9))
        m.d.comb += rounded.eq(kept[1:].as_signed() + kept[0])
        result = register(m, Mux(short, saturate(rounded, 8), end(negative, 8)), "result")
        m.d.comb += self.o.eq(result)
        return m


def dropped(code: int) -> int:
    """Bits that a shift drops before it rounds: all but the last one."""
    return (code - 1) % SHIFTS

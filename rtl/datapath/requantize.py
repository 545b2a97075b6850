"""Requantization: multiply, rounding shift and saturation, one lane beside the other."""

from amaranth.hdl import Cat, Const, Module, Signal, signed, unsigned
from amaranth.lib import data

from golden.requantize import SHIFT_MAX
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.pipeline import register
from rtl.primitives.saturate import saturate

SATURATING_LATENCY = 5  # of RoundShift
FITTING_LATENCY = 3


class RoundShift(Unit):
    """o = saturate(round_shift(i, s), bits): the rounding rule with a variable shift.

    The shift by s - 1 is done in two stages, by a multiple of eight and by the rest, and the last
    bit shifted out is added. Between the two the value is saturated to bits + 8 bits, which
    changes no result: what it cuts saturates in the end too. Where all results are known to fit,
    both saturations are left out. One word a cycle, no valid.

    Parameters
    ----------
    width
        Bits of i, signed; more than bits + 8.
    bits
        Bits of o, signed.
    maximum
        Largest s; it is below width.
    fits
        No result needs saturation.

    Attributes
    ----------
    latency
        Cycles from i and s to o: 5, or 3 where the results fit.
    """

    def __init__(self, width: int, bits: int, maximum: int, *, fits: bool = False) -> None:
        self.bits, self.width, self.maximum, self.fits = bits, width, maximum, fits
        self.latency = FITTING_LATENCY if fits else SATURATING_LATENCY
        super().__init__(
            i=In(signed(width)),
            s=In(range(maximum + 1), "1..maximum."),
            o=Out(signed(bits)),
            wide=Out(
                signed(bits + 8),
                "o before its saturation and a cycle before it; its sign, and that it is beyond.",
            ),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        narrow = self.bits + 8
        # Cycle 1: shift by a multiple of eight.
        amount = Signal(range(self.maximum))
        m.d.comb += amount.eq(self.s - 1)
        coarse = register(m, self.i >> Cat(Const(0, 3), amount[3:]), "coarse")
        rest = register(m, amount[:3], "rest")
        # Cycle 2, where needed: drop the bits that no result can have.
        if self.fits:
            narrowed = coarse[:narrow].as_signed()
        else:
            narrowed = register(m, saturate(coarse, narrow), "narrowed")
            rest = register(m, rest, "rest_narrowed")
        # Cycle 3: shift by the rest; the last bit is half a unit of the result.
        halves = Signal(signed(narrow), reset_less=True)
        m.d.sync += halves.eq(narrowed >> rest)
        # Cycle 4: round. Cycle 5, where needed: saturate.
        rounded = Signal(signed(narrow), reset_less=True)
        m.d.sync += rounded.eq((halves + 1) >> 1)
        result = rounded if self.fits else register(m, saturate(rounded, self.bits), "saturated")
        m.d.comb += [self.o.eq(result), self.wide.eq(rounded)]
        return m


class Requantize(Unit):
    """o = saturate((acc * m + 2^(s-1)) >> s, 16) in each lane; docs/numerics.md section 1.

    An int8 result is this one saturated to 8 bits. One word a cycle, no valid: the result follows
    its operands by `latency` cycles.

    The multiplication of 32 by 16 bits is two of 17 by 17 bits, signed, each with a register on
    either side: acc = high * 2^16 + low. Multipliers: 2 * lanes.

    Attributes
    ----------
    latency
        Cycles from acc, m and s to o: 8.
    """

    latency = 3 + SATURATING_LATENCY

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(
            acc=In(data.ArrayLayout(signed(32), lanes)),
            m=In(data.ArrayLayout(unsigned(16), lanes), "Normalised multiplier, 2^15 and more."),
            s=In(data.ArrayLayout(unsigned(6), lanes), "Shift, 1..47."),
            o=Out(data.ArrayLayout(signed(16), lanes)),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for lane in range(self.lanes):
            # Cycle 1: operands of the multipliers.
            acc = register(m, self.acc[lane], f"acc{lane}")
            multiplier = register(m, self.m[lane], f"m{lane}")
            s = register(m, self.s[lane], f"s{lane}")
            # Cycle 2: partial products.
            high = register(m, acc[16:].as_signed() * multiplier, f"high{lane}")
            low = register(m, acc[:16] * multiplier, f"low{lane}")
            s = register(m, s, f"s{lane}_products")
            # Cycle 3: product.
            product = Signal(signed(48), name=f"product{lane}", reset_less=True)
            m.d.sync += product.eq(Cat(low[:16], (high + low[16:])[:32]).as_signed())
            s = register(m, s, f"s{lane}_product")
            # Cycles 4 to 8.
            shift = RoundShift(48, 16, SHIFT_MAX)
            m.submodules[f"shift{lane}"] = shift
            m.d.comb += [shift.i.eq(product), shift.s.eq(s), self.o[lane].eq(shift.o)]
        return m

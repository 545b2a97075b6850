"""One lane of LayerNorm: sums of the first pass, normalised values of the second."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed

from rtl.datapath.operand import Operand
from rtl.datapath.requantize import FITTING_LATENCY, SATURATING_LATENCY, RoundShift
from rtl.datapath.row_constants import OFFSET, SCALE, SQUARES, SUM, TOKEN_SHIFT_MAX
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.pipeline import delay, register

NORM_BITS = 18  # n: 12 fraction bits, |n| <= sqrt(H - 1), of an RMSNorm sqrt(H)


class NormLane(Unit):
    """One lane of both passes; the multiplier of z^2 is one of the two of z * scale.

    Pass 1: s1 += z, s2 += z^2. Pass 2: n = round_shift(z * scale - offset, shift),
    y = saturate(round_shift(n * gamma + beta, output_shift), 16),
    y8 = saturate(round_shift(y, operand_shift), 8). Multipliers: 3.

    Attributes
    ----------
    latency
        Cycles from z to y and y8: 17.
    sums_latency
        Cycles from z until it is in the sums: 3.
    offset_latency, gamma_latency, shift_latency
        Cycles from z to its offset, 5, to its gamma, 9, and to its operand_shift, 15.
    """

    sums_latency = 3
    offset_latency = 5
    gamma_latency = offset_latency + 1 + FITTING_LATENCY
    latency = gamma_latency + 2 + SATURATING_LATENCY + 1
    shift_latency = latency - Operand.latency

    def __init__(self) -> None:
        super().__init__(
            z=In(signed(16)),
            squares=In(1, "This z is one of pass 1; given with z."),
            sum_en=In(1, "Add the z of two cycles ago to the sums; begin new sums with it."),
            sum_first=In(1, ...),
            s1=Out(SUM),
            s2=Out(SQUARES),
            scale=In(
                SCALE, "Constants of the token: with z, five cycles after z and six after it."
            ),
            offset=In(OFFSET, ...),
            shift=In(range(TOKEN_SHIFT_MAX + 1), ...),
            gamma=In(signed(16), "Nine and ten cycles after z."),
            beta=In(signed(32), ...),
            output_shift=In(5),
            operand_shift=In(3, "1..8, 8 as 0; fifteen cycles after z."),
            y=Out(signed(16)),
            y8=Out(signed(8)),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Cycle 1: operands; scale = scale_high * 2^13 + scale_low.
        z = register(m, self.z, "z_low")
        factor = register(m, Mux(self.squares, self.z, self.scale[:13]), "factor")
        # Cycle 2: first product. The second follows a cycle later, so that each register feeds one
        # multiplier and can lie beside it.
        low = Signal(signed(33), reset_less=True)
        m.d.sync += low.eq(z * factor)
        z = register(m, z, "z_high")
        scale_high = delay(m, self.scale[13:], 2, "scale_high")
        # Cycle 3: sums of pass 1; second product of pass 2.
        s1, s2 = Signal(SUM, reset_less=True), Signal(SQUARES, reset_less=True)
        m.d.comb += [self.s1.eq(s1), self.s2.eq(s2)]
        with m.If(self.sum_en):
            m.d.sync += [
                s1.eq(Mux(self.sum_first, 0, s1) + z),
                s2.eq(Mux(self.sum_first, 0, s2) + low[:31]),
            ]
        high = register(m, z * scale_high, "high")
        # Cycle 4: from the multipliers to the adder. Cycle 5: z * scale.
        low = delay(m, low, 2, "low_delayed")
        high = register(m, high, "high_delayed")
        product = register(m, Cat(low[:13], high + (low >> 13)).as_signed(), "product")
        # Cycle 6: (H * z - S1) * r.
        difference = Signal(signed(44), reset_less=True)
        m.d.sync += difference.eq(product - self.offset)
        # Cycles 7 to 9: n, which fits.
        m.submodules.normalise = normalise = RoundShift(44, NORM_BITS, TOKEN_SHIFT_MAX, fits=True)
        m.d.comb += [normalise.i.eq(difference), normalise.s.eq(self.shift)]
        # Cycle 10: n * gamma. Cycle 11: + beta.
        scaled = register(m, normalise.o * self.gamma, "scaled")
        affine = Signal(signed(35), reset_less=True)
        m.d.sync += affine.eq(scaled + self.beta)
        # Cycles 12 to 16.
        m.submodules.output = output = RoundShift(35, 16, 31)
        m.d.comb += [output.i.eq(affine), output.s.eq(self.output_shift)]
        # Cycles 16 and 17: y8, from what y is before its saturation; y waits for it.
        m.submodules.operand = operand = Operand()
        m.d.comb += [
            operand.i.eq(output.wide),
            operand.s.eq(self.operand_shift),
            self.y.eq(register(m, output.o, "y")),
            self.y8.eq(operand.o),
        ]
        return m

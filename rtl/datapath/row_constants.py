"""The constants of a token for LayerNorm's second pass, from the sums of its first."""

from amaranth.hdl import Cat, Module, Signal, signed, unsigned

from rtl.datapath.rsqrt import Rsqrt
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.pipeline import delay, register

LENGTH = unsigned(11)  # H <= 1024
SUM = signed(27)  # S1, |z| <= 2^15
SQUARES = unsigned(41)  # S2, z^2 <= 2^30
EPSILON = unsigned(50)
SCALE = unsigned(26)  # H * r
OFFSET = signed(43)  # S1 * r
TOKEN_SHIFT = 4  # round_shift by e + 4
TOKEN_SHIFT_MAX = 25 + TOKEN_SHIFT


class RowConstants(Unit):
    """The constants of pass 2: scale = H * r, offset = S1 * r and shift = e + 4.

    V = H * S2 - S1^2 + E; (r, e) = rsqrt(V); docs/numerics.md section 7. One token a cycle, no
    valid. Multipliers: 12, 3 each for H * S2, S1^2, rsqrt and the two products with r.

    Attributes
    ----------
    latency
        Cycles from s1 and s2 to the outputs: 20.
    """

    latency = 4 + Rsqrt.latency + 2

    def __init__(self) -> None:
        super().__init__(
            s1=In(SUM, "Sum of z and of z^2."),
            s2=In(SQUARES, ...),
            channels=In(
                LENGTH, "H and E; steady while tokens are on their way, H from the cycle before on."
            ),
            epsilon=In(EPSILON, ...),
            scale=Out(SCALE),
            offset=Out(OFFSET),
            shift=Out(range(TOKEN_SHIFT_MAX + 1)),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        channels = register(m, self.channels, "channels")  # near its multipliers
        # Cycle 1: partial products. S2 in parts of 14 bits, S1 = high * 2^14 + low.
        part0 = register(m, channels * self.s2[:14], "part0")
        part1 = register(m, channels * self.s2[14:28], "part1")
        part2 = register(m, channels * self.s2[28:], "part2")
        low, high = self.s1[:14], self.s1[14:].as_signed()
        low_low = register(m, low * low, "low_low")
        high_low = register(m, high * low, "high_low")
        high_high = register(m, (high * high)[:24], "high_high")
        # Cycle 2: S1^2, and H * S2 + E in two halves.
        square = Signal(52, reset_less=True)
        m.d.sync += square.eq(Cat(low_low, high_high) + (high_low << 15))
        lower = register(m, part0 + (part1 << 14), "lower")
        upper = Signal(52, reset_less=True)
        m.d.sync += upper.eq((part2 << 28) + self.epsilon)
        # Cycle 3: H * S2 + E.
        positive = Signal(52, reset_less=True)
        m.d.sync += positive.eq(upper + lower)
        square = register(m, square, "square_delayed")
        # Cycle 4: V.
        v = Signal(52, reset_less=True)
        m.d.sync += v.eq(positive - square)
        # Cycles 5 to 18.
        m.submodules.rsqrt = rsqrt = Rsqrt()
        m.d.comb += rsqrt.i.eq(v)
        s1 = delay(m, self.s1, 4 + Rsqrt.latency, "s1")
        # Cycle 19: products with r; S1 = high * 2^16 + low.
        scale = register(m, (channels * rsqrt.r)[: SCALE.width], "scale_product")
        offset_low = register(m, s1[:16] * rsqrt.r, "offset_low")
        offset_high = register(m, s1[16:].as_signed() * rsqrt.r, "offset_high")
        shift = register(m, rsqrt.e + TOKEN_SHIFT, "shift_sum")
        # Cycle 20: S1 * r.
        offset = Cat(offset_low[:16], (offset_high + offset_low[16:])[:27])
        m.d.comb += [
            self.scale.eq(register(m, scale, "scale")),
            self.offset.eq(register(m, offset, "offset")),
            self.shift.eq(register(m, shift[:5], "shift")),
        ]
        return m

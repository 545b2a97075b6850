"""1 / S: normalise, look up a first estimate, one step of Newton's method."""

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned

from golden.reciprocal import TABLE
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.memory import READ_LATENCY, Rom
from rtl.primitives.pipeline import delay, register


def bits_of(low: int, high: int) -> Shape:
    """The narrowest signed shape that holds low..high."""
    return signed(max((~low).bit_length() if low < 0 else 0, high.bit_length()) + 1)


def normalised(m: Module, value: Value, stages: Sequence[Sequence[int]]) -> tuple[Value, Value]:
    """A value shifted left by the steps that leave its highest bit in; and which were skipped.

    A register behind each stage of steps. Of the second the highest bit is that of the first step.
    """
    width, skipped = len(value), Const(0, 0)
    for stage, steps in enumerate(stages):
        for step in steps:
            small = ~value[width - step :].any()
            value = Mux(small, value << step, value)[:width]
            skipped = Cat(~small, skipped)
        value = register(m, value, f"normalised{stage}")
        skipped = register(m, skipped, f"exponent{stage}")
    return value, skipped


class NewtonStep(Unit):
    """r = min((y0 * 2^25 + y0 * error + 2^20) >> 21, 65535): the end of reciprocal and of rsqrt.

    Since y0 * 2^25 has no bits below 2^21, that is y0 * 16 + round_shift(y0 * error, 21). The
    lowest bit of error takes no part in the multiplication, which then has 18 bits at most, but
    decides whether y0 is added; 2^20 lies above all of y0.
    Multipliers: 1. One value a cycle.

    Parameters
    ----------
    error
        Signed shape of error, at most 19 bits.

    Attributes
    ----------
    latency
        Cycles from y0 and error to r: 4.
    """

    latency = 4

    def __init__(self, error: Shape) -> None:
        super().__init__(
            y0=In(12, "First estimate with 12 fraction bits."),
            error=In(error, "Newton's residual."),
            r=Out(16),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Cycle 1: operands of the multiplier.
        y0 = register(m, self.y0, "y0")
        error = register(m, self.error, "error")
        # Cycle 2: product.
        high = register(m, error[1:].as_signed() * y0, "product_high")
        low = register(m, Mux(error[0], y0, 0), "product_low")
        # Cycle 3: the correction, rounded.
        half = Cat(low, Const(0, 20 - len(low)), Const(1, 1))
        correction = register(m, ((high << 1) + half) >> 21, "correction")
        y0 = delay(m, y0, 2, "y0_delayed")
        # Cycle 4: the sum. It exceeds 65535 by less than 2^16, if at all.
        total = Signal(17)
        m.d.comb += total.eq(Cat(Const(0, 4), y0) + correction)
        m.d.comb += self.r.eq(register(m, Mux(total[16], 0xFFFF, total[:16]), "r"))
        return m


def _entry(j: int) -> tuple[int, int]:
    """y0 and the residual at the interval's lower end u = (128 + j) * 2^12, in units of 2^12."""
    y0 = int(TABLE[j])
    return y0, (1 << 19) - (128 + j) * y0


class Reciprocal(Unit):
    """1/i = r * 2^-(16+e) within 2^-15; docs/numerics.md section 6.

    e = bit_length(i) - 1; u = i << (19 - e); y0 = R[(u >> 12) & 127];
    e25 = (2^31 - u * y0) >> 6; r = min((y0 * 2^25 + y0 * e25 + 2^20) >> 21, 65535).

    With u = (128 + j) * 2^12 + low, the table holds 2^31 - (128 + j) * 2^12 * y0 beside y0, so
    that one 12 x 12 multiplier makes u * y0. One value a cycle, no valid.
    Multipliers: 2. Memories: one ROM of 128 entries.

    Attributes
    ----------
    latency
        Cycles from i to r and e: 11.
    """

    latency = 2 + READ_LATENCY + 3 + NewtonStep.latency

    def __init__(self) -> None:
        super().__init__(
            i=In(unsigned(20), "1 and more; the result for 0 has no meaning. Out of a register."),
            r=Out(16, "2^15 <= r < 2^16."),
            e=Out(5, "0..19."),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        entries = [_entry(j) for j in range(128)]
        residual_shape = bits_of(min(c for _, c in entries), max(c for _, c in entries))
        ends = [((c << 12) - low * y0) >> 6 for y0, c in entries for low in (0, 4095)]
        error_shape = bits_of(min(ends), max(ends))

        # Cycles 1 and 2: shift the leading one to bit 19. Its index is 19 minus the shift, and the
        # skipped steps of 16, 8, ..., 1 are 31 minus it.
        u, skipped = normalised(m, self.i, ((16, 8), (4, 2, 1)))
        exponent = Signal(5)
        m.d.comb += exponent.eq(skipped - 12)
        # Cycles 3 and 4: the table. Cycle 5: operands of the multiplier.
        table = Rom(
            unsigned(12 + residual_shape.width),
            [y0 | (c % (1 << residual_shape.width)) << 12 for y0, c in entries],
        )
        m.submodules.table = table
        m.d.comb += table.address0.eq(u[12:19])
        y0 = register(m, table.data0[:12], "operand")
        low = delay(m, u[:12], READ_LATENCY + 1, "low")
        # Cycle 6: product.
        product = register(m, low * y0, "product")
        residual = delay(m, table.data0[12:].as_signed(), 2, "residual")
        y0 = delay(m, y0, 2, "y0")
        # Cycle 7: Newton's residual.
        error = register(m, ((residual << 12) - product) >> 6, "error")
        # Cycles 8 to 11.
        m.submodules.newton = newton = NewtonStep(error_shape)
        m.d.comb += [
            newton.y0.eq(y0),
            newton.error.eq(error),
            self.r.eq(newton.r),
            self.e.eq(delay(m, exponent, self.latency - 2, "e")),
        ]
        return m

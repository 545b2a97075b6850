"""1 / sqrt(V): normalise by pairs of bits, look up an estimate, one step of Newton's method."""

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned

from golden.rsqrt import TABLE
from rtl.datapath.reciprocal import NewtonStep, bits_of, normalised
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.memory import READ_LATENCY, Rom
from rtl.primitives.pipeline import delay, register


def _entry(j: int) -> tuple[int, int, int]:
    """y0, y0^2, and the residual at the interval's lower end, in units of 2^9."""
    y0 = int(TABLE[j])
    start = (128 + j) << 9 if j < 128 else j << 10
    return y0, y0 * y0, ((1 << 40) - start * y0 * y0) >> 9


class Rsqrt(Unit):
    """1/sqrt(i) = r * 2^-(16+e) within 2^-15; docs/numerics.md section 7.

    e = (bit_length(i) - 1) >> 1; u = floor(i * 2^16 / 4^e), 2^16 <= u < 2^18; y0 = Q[j] with j
    from the bits below u's leading one; e24 = (2^40 - u * y0^2) >> 16;
    r = min((y0 * 2^25 + y0 * e24 + 2^20) >> 21, 65535).

    With u = start(j) + low, low < 2^10, the table holds y0^2 and 2^40 - start * y0^2 beside y0,
    so that two 10 x 12 multipliers make u * y0^2. One value a cycle, no valid.
    Multipliers: 3. Memories: one ROM of 256 entries of 64 bits or less.

    Attributes
    ----------
    latency
        Cycles from i to r and e: 14.
    """

    latency = 4 + READ_LATENCY + 4 + NewtonStep.latency

    def __init__(self) -> None:
        super().__init__(
            i=In(unsigned(52), "1 and more; the result for 0 has no meaning. Out of a register."),
            r=Out(16, "2^15 <= r < 2^16."),
            e=Out(5, "0..25."),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        entries = [_entry(j) for j in range(256)]
        residuals = [c for _, _, c in entries]
        residual_shape = bits_of(min(residuals), max(residuals))
        ends = [
            ((c << 9) - low * square) >> 16
            for j, (_, square, c) in enumerate(entries)
            for low in (0, 511 if j < 128 else 1023)
        ]
        error_shape = bits_of(min(ends), max(ends))

        # Cycles 1 to 4: shift the leading pair of bits to the top. The exponent is 25 minus the
        # pairs shifted, and the skipped steps of 16, 8, ..., 1 pairs are 31 minus them.
        v, skipped = normalised(m, self.i, ((32,), (16,), (8,), (4, 2)))
        exponent = Signal(5)
        m.d.comb += exponent.eq(skipped - 6)
        u = v[34:]
        large = u[17]
        # Cycles 5 and 6: the table. Cycle 7: operands of the multipliers.
        table = Rom(
            unsigned(36 + residual_shape.width),
            [y0 | y2 << 12 | (c % (1 << residual_shape.width)) << 36 for y0, y2, c in entries],
        )
        m.submodules.table = table
        m.d.comb += table.address0.eq(Cat(Mux(large, u[10:17], u[9:16]), large))
        square_low = register(m, table.data0[12:24], "square_low")
        square_high = register(m, table.data0[24:36], "square_high")
        low = delay(m, Mux(large, u[:10], u[:9]), READ_LATENCY + 1, "low")
        # Cycle 8: partial products.
        product_low = register(m, low * square_low, "product_low")
        product_high = register(m, low * square_high, "product_high")
        residual = delay(m, table.data0[36:].as_signed(), 3, "residual")
        y0 = delay(m, table.data0[:12], 4, "y0")
        # Cycle 9: product.
        product = register(m, (product_high << 12) + product_low, "product")
        # Cycle 10: Newton's residual.
        error = register(m, ((residual << 9) - product) >> 16, "error")
        # Cycles 11 to 14.
        m.submodules.newton = newton = NewtonStep(error_shape)
        m.d.comb += [
            newton.y0.eq(y0),
            newton.error.eq(error),
            self.r.eq(newton.r),
            self.e.eq(delay(m, exponent, self.latency - 4, "e")),
        ]
        return m

"""The multiplier of a row's context: the tensor's multiplier over the row's sum of weights."""

from amaranth.hdl import Module, Mux, Signal

from rtl.datapath.reciprocal import Reciprocal
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.pipeline import delay, register


class RowScale(Unit):
    """The multiplier of a row's context, m * 2^-s / sum; docs/numerics.md section 6.

    (r, e) = reciprocal(sum); P = r * m; adj = 16 if P >= 2^31 else 15;
    row_m = round_shift(P, adj), 2^16 becoming 2^15 with adj + 1; row_s = s + 16 + e - adj.
    One row a cycle, no valid. Multipliers: 3.

    Parameters
    ----------
    bits
        Of the sum, 20 or 21. `Reciprocal` takes 20: of a sum with bit 20 all but the lowest, which
        has no part in r, and e is 1 more.

    Attributes
    ----------
    latency
        Cycles from sum to row_m and row_s: 14.
    """

    latency = Reciprocal.latency + 3

    def __init__(self, bits: int = 20) -> None:
        self.bits = bits
        super().__init__(
            sum=In(bits),
            m=In(16, "The multiplier of the tensor; steady while rows are on their way."),
            s=In(6, ...),
            row_m=Out(16),
            row_s=Out(6),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        # Cycles 1 to 11.
        m.submodules.reciprocal = reciprocal = Reciprocal()
        operand, exponent = self.sum, self.s + reciprocal.e
        if self.bits > len(reciprocal.i):
            over = self.sum[-1]
            operand = Mux(over, self.sum[1:], self.sum)
            exponent += delay(m, over, Reciprocal.latency, "over")
        m.d.comb += reciprocal.i.eq(operand)
        # Cycle 12: product.
        product = register(m, reciprocal.r * self.m, "product")
        exponent = register(m, exponent, "exponent")
        # Cycle 13: 16 bits below the leading one, and half a unit.
        large = product[31]
        halves = register(m, Mux(large, product[15:], product[14:31]), "halves")
        exponent = register(m, exponent + ~large, "exponent_large")
        # Cycle 14: round.
        rounded = Signal(17)
        m.d.comb += [
            rounded.eq((halves + 1) >> 1),
            self.row_m.eq(register(m, Mux(rounded[16], 1 << 15, rounded[:16]), "row_m")),
            self.row_s.eq(register(m, (exponent - rounded[16])[:6], "row_s")),
        ]
        return m

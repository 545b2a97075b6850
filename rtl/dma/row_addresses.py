"""The address of an embedding row in memory."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib.stream import Signature as Stream

from rtl.dma.bus import Bus, region
from rtl.interface.config import Config, ceil_div
from rtl.primitives.members import In, Out, Unit


def most_row_words(config: Config) -> int:
    """Words of the widest row: two bytes a channel."""
    return 2 * ceil_div(config.hidden, config.lanes)


class RowAddresses(Unit):
    """base + row * row bytes, two bits of the row's words a cycle: no multiplier.

    Attributes
    ----------
    steps
        Half the bits of row_words, rounded up.
    """

    def __init__(self, config: Config, bus: Bus) -> None:
        self.bus, self.lanes = bus, config.lanes
        self.word_bits = most_row_words(config).bit_length()
        self.steps = ceil_div(self.word_bits, 2)
        super().__init__(
            i=In(Stream(unsigned(32)), "Row numbers."),
            base=In(bus.address_bits, "Byte address of row 0."),
            row_words=In(self.word_bits),
            o=Out(
                Stream(region(bus, self.word_bits)),
                "The row, `steps` + 1 cycles after its number was taken; then the next one is.",
            ),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        bits = self.bus.address_bits
        once, factor = Signal(bits), Signal(2 * self.steps)  # of row bytes, and of row words
        step = Signal(range(self.steps))
        m.d.comb += self.o.payload.words.eq(self.row_words)
        sum_ = self.o.payload.address
        with m.FSM(name="state"):
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [
                    sum_.eq(self.base),
                    once.eq(self.i.payload * self.lanes),
                    factor.eq(self.row_words),
                    step.eq(0),
                ]
                with m.If(self.i.valid):
                    m.next = "ADD"
            with m.State("ADD"):
                m.d.sync += [
                    sum_.eq(sum_ + Mux(factor[0], once, 0) + Mux(factor[1], once << 1, 0)),
                    once.eq(once << 2),
                    factor.eq(factor >> 2),
                    step.eq(step + 1),
                ]
                with m.If(step == self.steps - 1):
                    m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.next = "IDLE"
        return m

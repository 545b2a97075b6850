"""The border to the embedding memory, which keeps its promises over every end of an inference."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib.stream import Signature as Stream

from rtl.interface.config import Config
from rtl.interface.word import row_word
from rtl.primitives.members import In, Out, Unit

OUTSTANDING_BITS = 10
"""Holds the rows that may be outstanding: as many as `embedding.MAX_PENDING` words, and one."""


class RowBorder(Unit):
    """Between the embedding unit, which is reset at every end, and a memory, which is not.

    A request that was offered stays until it is taken, also when the unit that made it is reset;
    rows that were asked for are taken, also when nobody wants them any more. Words are taken only
    while a row is outstanding, so that whatever comes, the count stays right.

    Attributes
    ----------
    latency
        Cycles from request to asked and from i to o: 0.
    """

    latency = 0

    def __init__(self, config: Config) -> None:
        word = row_word(config.lanes)
        super().__init__(
            reset=In(1, "No new request is offered, rows are dropped."),
            request=In(Stream(unsigned(32)), "Row numbers; a payload stays until it is taken."),
            asked=Out(Stream(unsigned(32)), "The same, to the memory."),
            i=In(Stream(word), "Rows, each up to its `last`, in the order of the requests."),
            o=Out(Stream(word), "To the embedding unit."),
            pending=Out(1, "A request is offered, or rows that were asked for have not come."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        kept, offered = Signal(32), Signal()  # the request of the cycle before, if not taken then
        m.d.comb += [
            self.asked.valid.eq(offered | (self.request.valid & ~self.reset)),
            self.asked.payload.eq(Mux(offered, kept, self.request.payload)),
            self.request.ready.eq(self.asked.ready),
        ]
        m.d.sync += [
            offered.eq(self.asked.valid & ~self.asked.ready),
            kept.eq(self.asked.payload),
        ]
        outstanding, some = Signal(OUTSTANDING_BITS), Signal()  # `some` is outstanding != 0
        m.d.comb += [
            self.i.ready.eq(some & (self.reset | self.o.ready)),
            self.o.valid.eq(self.i.valid & some & ~self.reset),
            self.o.payload.eq(self.i.payload),
            self.pending.eq(some | self.asked.valid),
        ]
        asked = self.asked.valid & self.asked.ready
        ended = self.i.valid & self.i.ready & self.i.payload.last
        with m.If(asked & ~ended):
            m.d.sync += [outstanding.eq(outstanding + 1), some.eq(1)]
        with m.Elif(ended & ~asked):
            m.d.sync += [outstanding.eq(outstanding - 1), some.eq(outstanding != 1)]
        return m

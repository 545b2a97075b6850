"""Beats to words of N bytes, through a buffer."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal
from amaranth.lib import fifo
from amaranth.lib.stream import Signature as Stream

from rtl.dma.bus import Beats, Bus, beat, per_beat
from rtl.interface.word import row_word
from rtl.primitives.members import In, Out, Unit


class Words(Unit):
    """A buffer of beats, and the words in them.

    Parameters
    ----------
    bus, lanes
        Width of the memory and of a word.

    Attributes
    ----------
    latency
        3.
    """

    latency = 3

    def __init__(self, bus: Bus, lanes: int) -> None:
        self.bus, self.lanes = bus, lanes
        super().__init__(
            i=In(Beats(bus, lanes), "Only beats that were reserved."),
            reserve=In(range(bus.burst + 1), "Beats that are asked for in this cycle."),
            free=Out(range(bus.buffer + 1), "Beats that may be asked for.", init=bus.buffer),
            o=Out(
                Stream(row_word(lanes)),
                "Words, `last` with a region's last. A word is offered `latency` cycles after its "
                "last beat came into an empty buffer. A word a cycle, or one every N / W where a "
                "beat is narrower.",
            ),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        bus, lanes = self.bus, self.lanes
        layout = beat(bus, lanes)
        # Of two places, the FIFO loses the second of two beats that come in a row.
        depth = max(bus.buffer, 3)
        m.submodules.buffer = buffer = fifo.SyncFIFOBuffered(width=layout.size, depth=depth)
        held = Signal(layout)
        m.d.comb += [
            buffer.w_data.eq(self.i.payload),
            buffer.w_en.eq(self.i.valid),
            held.eq(buffer.r_data),
        ]
        m.d.sync += self.free.eq(self.free - self.reserve + (buffer.r_rdy & buffer.r_en))

        word = Signal(8 * lanes)
        complete = Signal()  # with this beat, a word is
        emptied = Signal()  # this word is the beat's last
        free = Signal()  # for a word
        words, several = per_beat(bus, lanes), lanes // bus.data_bytes
        m.d.comb += [complete.eq(1), emptied.eq(1)]
        offered = buffer.r_rdy & complete
        if words > 1:
            place, following = Signal(range(words)), Signal(range(words))
            fresh = Signal(init=1)
            m.d.comb += [
                place.eq(Mux(fresh, held.first, following)),
                emptied.eq(place == held.last),
                word.eq(held.data.word_select(place, 8 * lanes)),
            ]
            with m.If(offered & free):
                m.d.sync += [following.eq(place + 1), fresh.eq(emptied)]
        elif several > 1:
            part = Signal(range(several))
            parts = Signal(8 * (lanes - bus.data_bytes))
            m.d.comb += [complete.eq(part == several - 1), word.eq(Cat(parts, held.data))]
            with m.If(buffer.r_rdy & buffer.r_en):
                m.d.sync += [part.eq(part + 1), parts.eq(Cat(parts, held.data)[bus.data_bits :])]
        else:
            m.d.comb += word.eq(held.data)
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            buffer.r_en.eq(Mux(complete, free & emptied, 1)),
        ]
        with m.If(free):
            m.d.sync += self.o.valid.eq(offered)
            m.d.sync += [
                self.o.payload.data.eq(word),
                self.o.payload.last.eq(held.end & emptied),
            ]
        return m

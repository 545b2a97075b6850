"""The AXI4 read master: bursts of two clients on one address and one data channel."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Array, Cat, Elaboratable, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.stream import Signature as Stream

from rtl.dma.bus import INCR, NORMAL, AxiRead, Beats, Bus, burst, per_beat
from rtl.primitives.members import In, Out, Unit

CLIENTS = ("rows", "model")
"""The rows come first where both ask."""


class Reader(Unit):
    """Asks for the bursts of two clients and gives each its beats.

    One ID, so that beats come in the order of the bursts. A client asks only for what it has room
    for, so that RREADY is always high. An address waits unchanged until it is taken, whatever
    becomes of its client. No output hangs on an input of m_axi in the same cycle but the beats.

    Parameters
    ----------
    widths
        Bytes of a word of each of CLIENTS.
    """

    def __init__(self, bus: Bus, widths: Sequence[int]) -> None:
        self.bus, self.widths = bus, widths
        each = dict(zip(CLIENTS, widths, strict=True))
        super().__init__(
            **{
                name: In(Stream(burst(bus, of)), "One of the two is taken a cycle.")
                for name, of in each.items()
            },
            **{f"{name}_beats": Out(Beats(bus, of)) for name, of in each.items()},
            m_axi=Out(AxiRead(bus), "The address is there a cycle after its burst was taken."),
            pending=Out(1, "An address is offered, or beats have not come."),
            error=Out(1, "Pulse in the cycle after a beat with SLVERR or DECERR."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        bus, axi = self.bus, self.m_axi
        wanted = burst(bus, min(self.widths))  # with the most words a beat
        entry = data.StructLayout(
            {"client": 1, **{name: wanted[name].shape for name in ("first", "last", "end")}}
        )
        asked = Array(Signal(entry, name=f"asked_{i}") for i in range(bus.outstanding))
        into, out = (Signal(range(bus.outstanding), name=name) for name in ("into", "out"))
        count = Signal(range(bus.outstanding + 1))

        # Addresses.
        room, chosen = Signal(), Signal()
        m.d.comb += [
            room.eq((~axi.arvalid | axi.arready) & (count != bus.outstanding)),
            chosen.eq(~self.rows.valid),
            self.rows.ready.eq(room),
            self.model.ready.eq(room & chosen),
        ]
        taken, one = Signal(), Signal(wanted)
        m.d.comb += [
            taken.eq(room & (self.rows.valid | self.model.valid)),
            *(
                one[name].eq(Mux(chosen, self.model.payload[name], self.rows.payload[name]))
                for name in ("beat", "length", "first", "last", "end")
            ),
        ]
        with m.If(axi.arready):
            m.d.sync += axi.arvalid.eq(0)
        with m.If(taken):
            m.d.sync += [
                axi.arvalid.eq(1),
                axi.araddr.eq(Cat(Signal(bus.shift, name="zeros"), one.beat)),
                axi.arlen.eq(one.length - 1),
                asked[into].client.eq(chosen),
                asked[into].first.eq(one.first),
                asked[into].last.eq(one.last),
                asked[into].end.eq(one.end),
                into.eq(into + 1),
            ]
        m.d.comb += [
            axi.arsize.eq(bus.shift),
            axi.arburst.eq(INCR),
            axi.arcache.eq(NORMAL),
            axi.rready.eq(1),
        ]

        # Beats.
        begins = Signal(init=1)
        head = Signal(entry)
        ended = Signal()
        m.d.comb += [head.eq(asked[out]), ended.eq(axi.rvalid & axi.rlast)]
        for client, (beats, width) in enumerate(
            zip((self.rows_beats, self.model_beats), self.widths, strict=True)
        ):
            m.d.comb += [
                beats.valid.eq(axi.rvalid & (head.client == client)),
                beats.payload.data.eq(axi.rdata),
                beats.payload.first.eq(Mux(begins, head.first, 0)),
                beats.payload.last.eq(Mux(axi.rlast, head.last, per_beat(bus, width) - 1)),
                beats.payload.end.eq(axi.rlast & head.end),
            ]
        with m.If(axi.rvalid):
            m.d.sync += begins.eq(axi.rlast)
        m.d.sync += self.error.eq(axi.rvalid & axi.rresp[1])
        with m.If(ended):
            m.d.sync += out.eq(out + 1)
        m.d.sync += count.eq(count + taken - ended)
        m.d.comb += self.pending.eq(count != 0)
        return m

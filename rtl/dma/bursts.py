"""Cuts regions of memory into bursts."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib.stream import Signature as Stream

from rtl.dma.bus import Bus, burst, index_bits, per_beat, region
from rtl.primitives.members import In, Out, Unit


class Bursts(Unit):
    """Regions of words to bursts of beats.

    A burst ends at the next multiple of `bus.burst` beats in memory, or with its region. So none
    crosses 4 KiB, and all but a region's first and last have full length.

    Parameters
    ----------
    bus, lanes
        Width of the memory and of a word.
    word_bits
        Width of a region's number of words.
    """

    def __init__(self, bus: Bus, lanes: int, word_bits: int) -> None:
        self.bus, self.lanes, self.word_bits = bus, lanes, word_bits
        super().__init__(
            i=In(
                Stream(region(bus, word_bits)), "Taken when the bursts of the one before have been."
            ),
            o=Out(
                Stream(burst(bus, lanes)),
                "The first two cycles after its region; one every two cycles at most.",
            ),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        bus, lanes = self.bus, self.lanes
        words, several = per_beat(bus, lanes), max(lanes // bus.data_bytes, 1)
        bits = index_bits(bus, lanes)
        offset = self.i.payload.address[bus.shift - bits : bus.shift] if bits else 0
        after = Signal(self.word_bits + 1)  # of the last word, counted in words from the first beat
        m.d.comb += after.eq(self.i.payload.words + offset)

        left = Signal(self.word_bits + several.bit_length())
        final = Signal(bits)  # place of the region's last word in its beat
        length, end = Signal(bus.burst.bit_length(), name="length"), Signal(name="end")
        now = self.o.payload
        room = bus.burst - (now.beat & (bus.burst - 1))
        m.d.comb += [
            now.length.eq(length),
            now.end.eq(end),
            now.last.eq(Mux(end, final, words - 1)),
        ]
        with m.FSM(name="state"):
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [
                    now.beat.eq(self.i.payload.address[bus.shift :]),
                    now.first.eq(offset),
                    final.eq(after - 1),
                    left.eq(((after + (words - 1)) >> bits) * several),
                ]
                with m.If(self.i.valid):
                    m.next = "SIZE"
            with m.State("SIZE"):
                m.d.sync += [end.eq(left <= room), length.eq(Mux(left <= room, left, room))]
                m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += [
                        now.beat.eq(now.beat + length),
                        now.first.eq(0),
                        left.eq(left - length),
                    ]
                    m.next = "SIZE"
                    with m.If(end):
                        m.next = "IDLE"
        return m

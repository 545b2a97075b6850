"""The image in the flash, copied into the board's memory at power-up."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from boards.gateware.chip import Chip
from boards.gateware.flash import FlashReader, SpiPins
from boards.gateware.sdram import Request
from rtl.compile.image import HEADER, MAGIC

CHUNK_BYTES = HEADER.size
"""Copied with one request."""
SIZE_AT = 16
KNOWN_BYTES = SIZE_AT + 8


class FlashLoader(wiring.Component):
    """Copies an image from the flash to address 0 of the memory.

    Where the flash does not begin with the magic of an image there, or with a size that is larger
    than the memory, no more than its header is copied. Whether it is sound is not looked at.

    Parameters
    ----------
    chip
        The memory.
    half, wake
        Of the flash reader.
    place
        Address in the flash.

    Members
    -------
    start
        Pulse while `busy` is low.
    busy
    found
        Something that begins as an image was copied; once `busy` is low.
    request : Out, stream of boards.gateware.sdram.Request
    write : Out, stream of 16
    pins : Out, SpiPins
    """

    def __init__(self, chip: Chip, length_bits: int, half: int, wake: int, place: int) -> None:
        self.chip, self.length_bits, self.place = chip, length_bits, place
        self.reader = FlashReader(half, wake)
        super().__init__(
            {
                "start": In(1),
                "busy": Out(1),
                "found": Out(1),
                "request": Out(stream.Signature(Request(chip, length_bits))),
                "write": Out(stream.Signature(16)),
                "pins": Out(SpiPins()),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        m.submodules.reader = reader = self.reader
        wiring.connect(m, reader.pins, wiring.flipped(self.pins))
        m.d.comb += reader.address.eq(self.place)

        # Bytes become words, the first byte the lower.
        low, have_low = Signal(8), Signal()
        m.d.comb += [
            self.write.payload.eq(Cat(low, reader.o.payload)),
            self.write.valid.eq(reader.o.valid & have_low),
        ]
        byte = Signal()
        m.d.comb += byte.eq(reader.o.valid & reader.o.ready)
        with m.If(byte):
            m.d.sync += have_low.eq(~have_low)
            with m.If(~have_low):
                m.d.sync += low.eq(reader.o.payload)

        chunk_bits = (CHUNK_BYTES - 1).bit_length()
        copied = Signal(self.chip.address_bits + 2)  # bytes; as many as the memory has are more
        known = Signal(8 * KNOWN_BYTES)
        magic, size = known[: 8 * len(MAGIC)], known[8 * SIZE_AT :]
        sound = Signal()
        m.d.comb += [
            sound.eq(
                (magic == int.from_bytes(MAGIC, "little")) & (size <= 2 << self.chip.address_bits)
            ),
            self.request.payload.write.eq(1),
            self.request.payload.address.eq(copied >> 1),
            self.request.payload.last.eq(CHUNK_BYTES // 2 - 1),
        ]
        with m.FSM(name="part") as part:
            m.d.comb += self.busy.eq(~part.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.sync += [copied.eq(0), have_low.eq(0)]
                with m.If(self.start):
                    m.d.sync += self.found.eq(0)
                    m.next = "WAKE"
            with m.State("WAKE"):
                m.d.comb += reader.start.eq(~reader.busy)
                with m.If(~reader.busy):
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += self.request.valid.eq(1)
                with m.If(self.request.ready):
                    m.next = "COPY"
            with m.State("COPY"):
                m.d.comb += reader.o.ready.eq(~have_low | self.write.ready)
                with m.If(byte):
                    m.d.sync += copied.eq(copied + 1)
                    with m.If(copied < KNOWN_BYTES):
                        m.d.sync += known.eq(Cat(known[8:], reader.o.payload))
                    with m.If(copied[:chunk_bits].all()):
                        m.next = "CHUNK"
            with m.State("CHUNK"):
                m.d.sync += self.found.eq(sound)
                m.next = "ASK"
                with m.If(~sound | (copied >= size)):
                    m.d.comb += reader.stop.eq(1)
                    m.next = "IDLE"
        return m

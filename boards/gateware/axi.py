"""The SDRAM behind the read channels of AXI4."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from boards.gateware.chip import Chip
from boards.gateware.sdram import Request
from rtl.dma.bus import INCR, AxiRead, Bus

OKAY, DECERR = 0, 3
WORD_BYTES = 2


class AxiMemory(wiring.Component):
    """Answers bursts of a read master with the words of an SDRAM controller.

    Bursts are answered in their order. A burst that is not all within the chip, or is none of whole
    beats at rising addresses, gets its number of beats with DECERR and is not read. No output of
    s_axi hangs on an input of it in the same cycle.

    Parameters
    ----------
    bus
        Of the master; a beat is a whole number of words of 16 bits.
    chip
        The one behind the controller.
    length_bits
        Of the controller's requests; a burst of 256 beats has to fit.
    depth
        Bursts that are taken and not answered.

    Members
    -------
    s_axi : In, AxiRead
    request : Out, stream of boards.gateware.sdram.Request
    read : In, stream of 16

    Raises
    ------
    ValueError
        Requests are too short for the longest burst.
    """

    def __init__(self, bus: Bus, chip: Chip, length_bits: int = 16, depth: int = 16) -> None:
        self.bus, self.chip, self.length_bits, self.depth = bus, chip, length_bits, depth
        self.words = bus.data_bytes // WORD_BYTES
        if 256 * self.words > 1 << length_bits:
            raise ValueError(
                f"AxiMemory: length_bits is {length_bits}: a burst of 256 beats has "
                f"{256 * self.words} words"
            )
        super().__init__(
            {
                "s_axi": In(AxiRead(bus)),
                "request": Out(stream.Signature(Request(chip, length_bits))),
                "read": In(stream.Signature(16)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        axi, request = self.s_axi, self.request.payload
        words, shift = self.words, (self.words - 1).bit_length()
        entry = data.StructLayout({"beats": 8, "id": len(axi.arid), "wrong": 1})
        m.submodules.bursts = bursts = SyncFIFOBuffered(
            width=entry.as_shape().width, depth=self.depth
        )

        # An address is kept until the controller has taken it.
        free = Signal(init=1)
        wrong = Signal()
        top = Signal(len(axi.araddr) + 1)
        size = self.chip.address_bits + 1  # bits of a byte's address
        m.d.comb += [
            axi.arready.eq(free & bursts.w_rdy),
            top.eq(axi.araddr + ((axi.arlen << self.bus.shift) | (self.bus.data_bytes - 1))),
            wrong.eq(
                (top >> size).any()
                | axi.araddr[: self.bus.shift].any()
                | (axi.arsize != self.bus.shift)
                | (axi.arburst != INCR)
            ),
        ]
        new = Signal(entry)
        m.d.comb += [
            new.beats.eq(axi.arlen),
            new.id.eq(axi.arid),
            new.wrong.eq(wrong),
            bursts.w_data.eq(new),
            bursts.w_en.eq(axi.arvalid & axi.arready),
            self.request.valid.eq(~free),
        ]
        with m.If(axi.arvalid & axi.arready & ~wrong):
            m.d.sync += [
                free.eq(0),
                request.write.eq(0),
                request.address.eq(axi.araddr >> 1),
                request.last.eq((axi.arlen << shift) | (words - 1)),
            ]
        with m.Elif(self.request.ready):
            m.d.sync += free.eq(1)

        # Words become beats: one is put together while the one before is offered.
        burst = entry(bursts.r_data)
        part = Signal(self.bus.data_bits - 16, reset_less=True)
        have = Signal(range(words))
        beat = Signal(8)
        whole, last = Signal(), Signal()
        m.d.comb += [
            self.read.ready.eq(bursts.r_rdy & ~burst.wrong & ((have != words - 1) | ~axi.rvalid)),
            whole.eq(
                bursts.r_rdy
                & Mux(
                    burst.wrong,
                    ~axi.rvalid,
                    self.read.valid & self.read.ready & (have == words - 1),
                )
            ),
            last.eq(beat == burst.beats),
            bursts.r_en.eq(whole & last),
        ]
        with m.If(self.read.valid & self.read.ready):
            m.d.sync += [
                have.eq(Mux(have == words - 1, 0, have + 1)),
                part.eq(Cat(part, self.read.payload) >> 16),
            ]
        with m.If(whole):
            m.d.sync += [
                axi.rvalid.eq(1),
                axi.rdata.eq(Cat(part, self.read.payload)),
                axi.rresp.eq(Mux(burst.wrong, DECERR, OKAY)),
                axi.rid.eq(burst.id),
                axi.rlast.eq(last),
                beat.eq(Mux(last, 0, beat + 1)),
            ]
        with m.Elif(axi.rready):
            m.d.sync += axi.rvalid.eq(0)
        return m

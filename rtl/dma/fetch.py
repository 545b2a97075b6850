"""The command stream and the embedding rows from memory."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, ResetInserter, Signal, unsigned
from amaranth.lib.stream import Signature as Stream
from amaranth.lib.wiring import connect, flipped

from rtl.dma.bursts import Bursts
from rtl.dma.bus import AxiRead, Bus
from rtl.dma.reader import Reader
from rtl.dma.row_addresses import RowAddresses
from rtl.dma.words import Words
from rtl.interface.config import Config
from rtl.interface.word import row_word
from rtl.primitives.members import In, Out, Unit

MODEL_WORD_BITS = 32


class Fetch(Unit):
    """The reads of an inference: the stream from `start` on, rows as they are asked for.

    The stream is read ahead as far as its buffer goes. With `stop` it is asked for no more, and
    what comes of it is dropped; rows are read whatever happens. Rows have precedence.
    """

    def __init__(self, config: Config, bus: Bus) -> None:
        self.bus, self.widths = bus, (config.lanes, config.stream_width)  # of rows and stream
        self.addresses = RowAddresses(config, bus)
        super().__init__(
            start=In(1, "Pulse, without stop: read the stream."),
            stop=In(1, "No inference runs."),
            model_address=In(bus.address_bits, "Byte address, and number of words, 1 or more."),
            model_words=In(MODEL_WORD_BITS, ...),
            rows_address=In(bus.address_bits, "See `RowAddresses`."),
            row_words=In(self.addresses.word_bits, ...),
            request=In(Stream(unsigned(32)), "Row numbers."),
            model=Out(
                Stream(row_word(config.stream_width)),
                "`last` with the stream's last, and with each row's last.",
            ),
            rows=Out(Stream(row_word(config.lanes)), ...),
            m_axi=Out(AxiRead(bus)),
            pending=Out(1, "Something that was asked for has not come."),
            error=Out(
                1, "Pulse in the cycle after a beat with SLVERR or DECERR, before its words."
            ),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        bus, addresses = self.bus, self.addresses
        row, model = self.widths
        m.submodules.addresses = addresses
        m.submodules.reader = reader = Reader(bus, self.widths)
        row_bursts = Bursts(bus, row, addresses.word_bits)
        model_bursts = Bursts(bus, model, MODEL_WORD_BITS)
        row_words, model_words = Words(bus, row), Words(bus, model)
        m.submodules.row_bursts, m.submodules.row_words = row_bursts, row_words
        m.submodules.model_bursts = ResetInserter(self.stop)(model_bursts)
        m.submodules.model_words = ResetInserter(self.stop)(model_words)

        connect(m, flipped(self.request), addresses.i)
        connect(m, addresses.o, row_bursts.i)
        connect(m, row_words.o, flipped(self.rows))
        connect(m, model_words.o, flipped(self.model))
        connect(m, reader.m_axi, flipped(self.m_axi))
        m.d.comb += [
            addresses.base.eq(self.rows_address),
            addresses.row_words.eq(self.row_words),
            model_bursts.i.payload.address.eq(self.model_address),
            model_bursts.i.payload.words.eq(self.model_words),
            model_bursts.i.valid.eq(self.start),
            self.pending.eq(reader.pending),
            self.error.eq(reader.error),
        ]
        for name, bursts, words, beats, allowed in (
            ("rows", row_bursts, row_words, reader.rows_beats, 1),
            ("model", model_bursts, model_words, reader.model_beats, ~self.stop),
        ):
            fits = Signal(name=f"{name}_fit")  # the burst into the buffer
            m.d.comb += fits.eq(words.free >= bursts.o.payload.length)
            taken = getattr(reader, name)
            m.d.comb += [
                taken.payload.eq(bursts.o.payload),
                taken.valid.eq(bursts.o.valid & fits & allowed),
                bursts.o.ready.eq(taken.ready & fits & allowed),
                words.reserve.eq(Mux(taken.valid & taken.ready, taken.payload.length, 0)),
                words.i.payload.eq(beats.payload),
                words.i.valid.eq(beats.valid),
            ]
        return m

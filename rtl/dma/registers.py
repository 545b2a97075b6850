"""The registers that the memory side adds to `rtl.control.axi`, and the FIFOs behind them."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, ResetInserter, Signal, unsigned
from amaranth.lib import data, fifo, wiring
from amaranth.lib.stream import Signature as Stream

from rtl.dma.bus import Bus
from rtl.dma.row_addresses import most_row_words
from rtl.interface.command import DESCRIPTOR_BYTES
from rtl.interface.config import Config, power_of_two
from rtl.interface.registers import DMA_REGISTERS
from rtl.primitives.members import In, Out, Unit

KEPT = tuple(r.name for r in DMA_REGISTERS if r.writable and r.readable)
ALIGNMENT = 64
"""Bytes: no beat is longer."""
FIFO_WORDS = 512
"""What a block RAM holds anyway."""

TOKEN = data.StructLayout({"data": unsigned(32), "last": 1})


def fifo_words(longest: int) -> int:
    """Depth of a FIFO that takes `longest` words."""
    return power_of_two(max(longest, FIFO_WORDS))


class DmaRegisters(Unit):
    """Addresses and sizes, and the FIFOs of tokens and logits."""

    def __init__(self, config: Config, bus: Bus) -> None:
        self.config, self.bus = config, bus
        self.row_word_bits = most_row_words(config).bit_length()
        writable = [r.name for r in DMA_REGISTERS if r.writable]
        readable = [r.name for r in DMA_REGISTERS if r.readable]
        super().__init__(
            writes=In(
                wiring.Signature(dict.fromkeys(writable, Out(1))),
                "A pulse for each writable register; what is written.",
            ),
            data=In(32, ...),
            refused=Out(
                wiring.Signature(dict.fromkeys(writable, Out(1))),
                "For each: a write in this cycle has no effect.",
            ),
            reads=In(1, "Pulse: `logit` is read in this cycle."),
            value=Out(
                wiring.Signature(dict.fromkeys(readable, Out(32))),
                "What each readable register shows.",
            ),
            busy=In(1, "An inference is under way: addresses and sizes stay as they are."),
            clear_tokens=In(1, "Empty the FIFO."),
            clear_logits=In(1, ...),
            tokens=Out(Stream(TOKEN)),
            logits=In(Stream(unsigned(32))),
            model_address=Out(
                bus.address_bits, "What the registers say, in words where it is a size."
            ),
            model_words=Out(32, ...),
            rows_address=Out(bus.address_bits, ...),
            row_words=Out(self.row_word_bits, ...),
            wrong=Out(
                1,
                "They cannot be used: of rows an address or a size is no multiple of N bytes, of "
                "the stream the size none of M and the address none of M, or of ALIGNMENT where M "
                "is more; one is above the bus; the stream is shorter than a descriptor; a row has"
                " no words, or more than any model's.",
            ),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        config, bus, n = self.config, self.bus, self.config.lanes
        kept = {name: Signal(32, name=name) for name in KEPT}
        for name, register in kept.items():
            m.d.comb += [
                getattr(self.refused, name).eq(self.busy),
                getattr(self.value, name).eq(register),
            ]
            with m.If(getattr(self.writes, name) & ~self.busy):
                m.d.sync += register.eq(self.data)
        model = Cat(kept["model_address"], kept["model_address_high"])
        rows = Cat(kept["rows_address"], kept["rows_address_high"])
        width = config.stream_width
        aligned = (
            *((model, min(width, ALIGNMENT)), (kept["model_bytes"], width)),
            *((rows, n), (kept["row_bytes"], n)),
        )
        odd = [x & (of - 1) != 0 for x, of in aligned]
        odd += [x[bus.address_bits :].any() for x in (model, rows) if bus.address_bits < 64]
        row_words = kept["row_bytes"] >> n.bit_length() - 1
        m.d.sync += self.wrong.eq(
            Cat(*odd).any()
            | (kept["model_bytes"] < DESCRIPTOR_BYTES)
            | (row_words == 0)
            | (row_words > most_row_words(config))
        )
        m.d.comb += [
            self.model_address.eq(model),
            self.model_words.eq(kept["model_bytes"] >> width.bit_length() - 1),
            self.rows_address.eq(rows),
            self.row_words.eq(row_words),
            self.value.bus_bytes.eq(bus.data_bytes),
        ]

        tokens = fifo.SyncFIFOBuffered(width=TOKEN.size, depth=fifo_words(config.tokens))
        m.submodules.tokens = ResetInserter(self.clear_tokens)(tokens)
        m.d.comb += [
            tokens.w_data.eq(Cat(self.data, self.writes.token_last)),
            tokens.w_en.eq(self.writes.token | self.writes.token_last),
            self.refused.token.eq(~tokens.w_rdy),
            self.refused.token_last.eq(~tokens.w_rdy),
            self.value.token_room.eq(tokens.depth - tokens.w_level),
            self.tokens.payload.eq(tokens.r_data),
            self.tokens.valid.eq(tokens.r_rdy),
            tokens.r_en.eq(self.tokens.ready),
        ]

        # All of a batch, of which none may be read before the interrupt.
        most = config.logit_words * config.lanes
        logits = fifo.SyncFIFOBuffered(width=32, depth=fifo_words(most))
        m.submodules.logits = ResetInserter(self.clear_logits)(logits)
        m.d.comb += [
            logits.w_data.eq(self.logits.payload),
            logits.w_en.eq(self.logits.valid),
            self.logits.ready.eq(logits.w_rdy),
            logits.r_en.eq(self.reads),
            self.value.logit.eq(Mux(logits.r_rdy, logits.r_data, 0)),
            self.value.logits_waiting.eq(logits.r_level),
        ]
        return m

"""The accelerator with its memory traffic: it reads stream and rows itself, as an AXI4 master."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib.wiring import connect, flipped

from rtl.accelerator import Accelerator
from rtl.dma.bus import AxiRead, Bus
from rtl.dma.fetch import Fetch
from rtl.dma.registers import DmaRegisters
from rtl.interface.config import Config
from rtl.interface.operation import Error
from rtl.interface.registers import DMA_REGISTERS
from rtl.interface.trace import Trace
from rtl.primitives.members import Out, Unit, copied

NAME = "accelerator_dma"
MOST_OWED = 255
"""Packets of tokens that failed inferences may leave to come."""


class AcceleratorDma(Unit):
    """`Accelerator`, its streams between a read master and register FIFOs.

    An inference: write addresses and sizes once; write the tokens into `token`, the last into
    `token_last`; write `start`; after the interrupt read the logits from `logit`. The accelerator
    reads the stream from `model_address` on and the rows from `rows_address` on.

    BUS ends an inference of which a beat came with SLVERR or DECERR, ADDRESS one whose registers
    cannot be used; nothing was read then. An end, good or bad, waits for all beats. An abort
    empties the FIFO of tokens, a start that of logits.

    Each start takes one packet of tokens. A failed inference ends without waiting for it: what has
    not come is dropped as it comes, before the next inference gets a token, unless an abort is
    written first. A start is refused while 255 (MOST_OWED) such packets are to come.
    """

    def __init__(self, config: Config, bus: Bus | None = None) -> None:
        self.config, self.bus = config, bus or Bus()
        self.accelerator = Accelerator(config, DMA_REGISTERS)
        super().__init__(
            s_axi=self.accelerator.signature.members["s_axi"],
            m_axi=Out(AxiRead(self.bus)),
            interrupt=Out(1, "As in `Accelerator`."),
            trace=Out(Trace(config), ...),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        m.submodules.accelerator = inner = self.accelerator
        m.submodules.fetch = fetch = Fetch(self.config, self.bus)
        m.submodules.dma_registers = behind = DmaRegisters(self.config, self.bus)
        control, registers = inner.control, inner.registers
        connect(m, flipped(self.s_axi), inner.s_axi)
        connect(m, fetch.m_axi, flipped(self.m_axi))
        m.d.comb += copied(self.trace, inner.trace)
        m.d.comb += self.interrupt.eq(inner.interrupt)

        for name, write in registers.writes.items():
            m.d.comb += [
                getattr(behind.writes, name).eq(write),
                registers.refused[name].eq(getattr(behind.refused, name)),
            ]
        for name in registers.reads:
            m.d.comb += getattr(registers.value, name).eq(getattr(behind.value, name))
        m.d.comb += [
            behind.data.eq(registers.data),
            behind.reads.eq(registers.reads["logit"]),
            behind.busy.eq(control.busy),
            behind.clear_tokens.eq(registers.abort),
            behind.clear_logits.eq(registers.start),
            behind.logits.payload.eq(inner.m_axis_logits.tdata),
            behind.logits.valid.eq(inner.m_axis_logits.tvalid),
            inner.m_axis_logits.tready.eq(behind.logits.ready),
        ]

        # One word ends the packet of a failed inference; its own end is awaited afterwards.
        owed, dropping = Signal(range(MOST_OWED + 1)), Signal()
        tokens, dropped = behind.tokens, Signal()
        m.d.comb += [
            inner.s_axis_tokens.tdata.eq(tokens.payload.data),
            inner.s_axis_tokens.tlast.eq(tokens.payload.last | control.reset),
            inner.s_axis_tokens.tvalid.eq(
                Mux(control.reset, control.drain_tokens, tokens.valid & ~dropping)
            ),
            dropping.eq(owed != 0),
            dropped.eq(dropping & tokens.valid & tokens.payload.last),
            tokens.ready.eq(dropping | (inner.s_axis_tokens.tready & ~control.reset)),
            inner.full.eq(owed == MOST_OWED),
        ]
        m.d.sync += owed.eq(owed + control.drain_tokens - dropped)
        with m.If(registers.abort):
            m.d.sync += owed.eq(0)

        m.d.comb += [
            fetch.start.eq(control.begin & ~behind.wrong),
            fetch.stop.eq(control.reset),
            fetch.model_address.eq(behind.model_address),
            fetch.model_words.eq(behind.model_words),
            fetch.rows_address.eq(behind.rows_address),
            fetch.row_words.eq(behind.row_words),
            fetch.request.payload.eq(inner.m_axis_request.tdata),
            fetch.request.valid.eq(inner.m_axis_request.tvalid),
            inner.m_axis_request.tready.eq(fetch.request.ready),
            inner.s_axis_rows.tdata.eq(fetch.rows.payload.data),
            inner.s_axis_rows.tlast.eq(fetch.rows.payload.last),
            inner.s_axis_rows.tvalid.eq(fetch.rows.valid),
            fetch.rows.ready.eq(inner.s_axis_rows.tready),
            # After a failure the rest of the stream is not read: one word ends it.
            inner.s_axis_model.tdata.eq(fetch.model.payload.data),
            inner.s_axis_model.tlast.eq(fetch.model.payload.last | control.reset),
            inner.s_axis_model.tvalid.eq(
                Mux(control.reset, control.drain_model, fetch.model.valid)
            ),
            fetch.model.ready.eq(inner.s_axis_model.tready),
            inner.pending.eq(fetch.pending),
        ]
        with m.If(control.begin & behind.wrong):
            m.d.comb += inner.fault.eq(Error.ADDRESS)
        with m.Elif(fetch.error):
            m.d.comb += inner.fault.eq(Error.BUS)
        return m

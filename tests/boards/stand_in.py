"""Something with the registers and the bus of the accelerator that is built in seconds.

It reads 16 beats from the model's address and computes nothing but sums: enough to see whether the
board brings tokens, addresses and memory to an accelerator, and its logits back.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.control.axi import AxiLite, Registers
from rtl.dma.bus import AxiRead, Bus
from rtl.dma.registers import DMA_REGISTERS, DmaRegisters
from rtl.interface.config import Config

BEATS = 16
MANY = 6
"""The code of more tokens than the limit."""
ENDS = 26
"""The bit of a token's word that ends a sequence."""


class StandIn(wiring.Component):
    """Logits: of the beats read the XOR of their lower halves, the sum of the token words, and of
    the registers rows_address + row_bytes + model_bytes. More than config.tokens words are an
    error, said to be of the sequence that comes after all that have ended."""

    def __init__(self, config: Config, bus: Bus) -> None:
        self.config, self.bus = config, bus
        super().__init__({"s_axi": In(AxiLite(8)), "m_axi": Out(AxiRead(bus)), "interrupt": Out(1)})

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        m.submodules.registers = registers = Registers(DMA_REGISTERS)
        m.submodules.behind = behind = DmaRegisters(self.config, self.bus)
        connect(m, flipped(self.s_axi), registers.s_axi)
        for name, write in registers.writes.items():
            m.d.comb += [
                getattr(behind.writes, name).eq(write),
                registers.refused[name].eq(getattr(behind.refused, name)),
            ]
        for name in registers.reads:
            m.d.comb += getattr(registers.value, name).eq(getattr(behind.value, name))
        axi, bus = self.m_axi, self.bus
        error, cycles, count = Signal(4), Signal(32), Signal(range(1 << 10))
        logits = [Signal(32, name=f"logit_{i}") for i in range(3)]
        m.d.comb += [
            behind.data.eq(registers.data),
            behind.reads.eq(registers.reads["logit"]),
            behind.clear_logits.eq(registers.start),
            self.interrupt.eq(registers.interrupt),
            registers.value.status.eq(error << 8),
            registers.value.cycles.eq(cycles),
            axi.araddr.eq(behind.model_address),
            axi.arlen.eq(BEATS - 1),
            axi.arsize.eq(bus.shift),
            axi.arburst.eq(1),
            axi.rready.eq(1),
            logits[2].eq(
                behind.value.rows_address + behind.value.row_bytes + behind.value.model_bytes
            ),
        ]
        sent, failed = Signal(2), Signal(16)
        m.d.comb += registers.value.failed_sequence.eq(failed)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [count.eq(0), logits[0].eq(0), logits[1].eq(0), sent.eq(0)]
                with m.If(registers.start):
                    m.d.sync += [cycles.eq(0), error.eq(0), failed.eq(0)]
                    m.next = "ASK"
            with m.State("ASK"):
                m.d.comb += axi.arvalid.eq(1)
                with m.If(axi.arready):
                    m.next = "READ"
            with m.State("READ"):
                with m.If(axi.rvalid):
                    m.d.sync += logits[0].eq(logits[0] ^ axi.rdata[:32])
                    with m.If(axi.rlast):
                        m.next = "TOKENS"
            with m.State("TOKENS"):
                m.d.comb += behind.tokens.ready.eq(1)
                with m.If(behind.tokens.valid):
                    m.d.sync += [
                        count.eq(count + 1),
                        logits[1].eq(logits[1] + behind.tokens.payload.data),
                        failed.eq(failed + behind.tokens.payload.data[ENDS]),
                    ]
                    with m.If(behind.tokens.payload.last):
                        m.next = "LOGITS"
            with m.State("LOGITS"):
                with m.If(count > self.config.tokens):
                    m.d.sync += error.eq(MANY)
                    m.next = "DONE"
                with m.Else():
                    for i, logit in enumerate(logits):
                        with m.If(sent == i):
                            m.d.comb += behind.logits.payload.eq(logit)
                    m.d.comb += behind.logits.valid.eq(1)
                    m.d.sync += sent.eq(sent + 1)
                    with m.If(sent == len(logits) - 1):
                        m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += registers.done.eq(1)
                m.next = "IDLE"
        m.d.sync += cycles.eq(cycles + 1)
        return m


def answer(image: bytes, words: Sequence[int]) -> list[int]:
    """What StandIn says, from the image's bytes as rtl/compile/image.py describes them."""
    stream, stream_bytes, rows = struct.unpack_from("<3Q", image, 24)
    (row_bytes,) = struct.unpack_from("<I", image, 56)
    beats = struct.unpack_from(f"<{2 * BEATS}I", image, stream)
    first = 0
    for lower in beats[::2]:
        first ^= lower
    logits = (first, sum(words), rows + row_bytes + stream_bytes)
    return [(x + (1 << 31)) % (1 << 32) - (1 << 31) for x in logits]

"""An inference: tokens into the accelerator's registers, logits out of them."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from boards.gateware.image import Place
from boards.gateware.register_bus import RegisterBus
from rtl.control.axi import REGISTERS, AxiLite
from rtl.dma.registers import DMA_REGISTERS

ADDRESS_BITS = 8
START = 1
REGISTER = {register.name: register.address for register in (*REGISTERS, *DMA_REGISTERS)}


class Inference(wiring.Component):
    """Plays an inference on the accelerator with DMA: the steps of its "An inference".

    Parameters
    ----------
    most
        Tokens that it may have.

    Members
    -------
    start
        Pulse while `busy` is low; `tokens` is looked at with it.
    busy
    tokens : In
        Tokens of all its sequences, 1 or more.
    place : In, Place
        Of the image.
    i : In, stream of 32
        The tokens, as the accelerator takes them.
    error : Out
        The accelerator's code, once `busy` is low.
    sequence : Out
        Which one the code is of, from 0, likewise; 0 where it is of none.
    logits : Out
        How many there are, likewise.
    o : Out, stream of 32
        Its cycles, then the logits, once `busy` is low and if `error` is 0. All have to be taken
        before the next start.
    m_axi : Out, AxiLite
        To the accelerator.
    interrupt : In
        Of the accelerator.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        super().__init__(
            {
                "start": In(1),
                "busy": Out(1),
                "tokens": In(range(most + 1)),
                "place": In(Place()),
                "i": In(stream.Signature(32)),
                "error": Out(4),
                "sequence": Out(16),
                "logits": Out(16),
                "o": Out(stream.Signature(32)),
                "m_axi": Out(AxiLite(ADDRESS_BITS)),
                "interrupt": In(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        m.submodules.bus = bus = RegisterBus(ADDRESS_BITS)
        wiring.connect(m, bus.m_axi, wiring.flipped(self.m_axi))
        left = Signal(range(self.most + 1))
        unread = Signal(16)

        def access(name: str, value: object = None) -> None:
            """Read a register, or write a value to it."""
            m.d.comb += [bus.i.valid.eq(1), bus.i.payload.address.eq(REGISTER[name])]
            if value is not None:
                m.d.comb += [bus.i.payload.write.eq(1), bus.i.payload.data.eq(value)]

        place = self.place
        setup = [
            ("model_address", place.stream),
            ("model_bytes", place.stream_bytes),
            ("rows_address", place.rows),
            ("row_bytes", place.row_bytes),
        ]
        with m.FSM(name="step") as step:
            m.d.comb += self.busy.eq(~step.ongoing("IDLE") & ~step.ongoing("LOGITS"))
            with m.State("IDLE"):
                m.d.sync += left.eq(self.tokens)
                with m.If(self.start):
                    m.next = setup[0][0]
            for (name, value), follows in zip(setup, [*(n for n, _ in setup[1:]), "TOKENS"]):
                with m.State(name):
                    access(name, value)
                    with m.If(bus.i.ready):
                        m.next = follows
            with m.State("TOKENS"):
                last = left == 1
                access("token", self.i.payload)
                m.d.comb += [
                    bus.i.valid.eq(self.i.valid),
                    bus.i.payload.address.eq(Mux(last, REGISTER["token_last"], REGISTER["token"])),
                    self.i.ready.eq(bus.i.ready),
                ]
                with m.If(bus.i.ready):
                    m.d.sync += left.eq(left - 1)
                    with m.If(last):
                        m.next = "START"
            with m.State("START"):
                access("control", START)
                with m.If(bus.i.ready):
                    m.next = "WAIT"
            with m.State("WAIT"):
                with m.If(self.interrupt):
                    m.next = "STATUS"
            with m.State("STATUS"):
                access("status")
                with m.If(bus.i.ready):
                    m.d.sync += self.error.eq(bus.data[8:12])
                    m.next = "COUNT"
                    with m.If(bus.data[8:12] != 0):
                        m.next = "FAILED"
            with m.State("FAILED"):
                access("failed_sequence")
                with m.If(bus.i.ready):
                    m.d.sync += self.sequence.eq(bus.data[:16])
                    m.next = "IDLE"
            with m.State("COUNT"):
                access("logits_waiting")
                with m.If(bus.i.ready):
                    m.d.sync += [self.logits.eq(bus.data), unread.eq(bus.data)]
                    m.next = "CYCLES"
            with m.State("CYCLES"):
                access("cycles")
                with m.If(bus.i.ready):
                    m.d.sync += [self.o.payload.eq(bus.data), self.o.valid.eq(1)]
                    m.next = "LOGITS"
            with m.State("LOGITS"):
                with m.If(self.o.valid):
                    with m.If(self.o.ready):
                        m.d.sync += self.o.valid.eq(0)
                with m.Elif(unread == 0):
                    m.next = "IDLE"
                with m.Else():
                    access("logit")
                    with m.If(bus.i.ready):
                        m.d.sync += [
                            self.o.payload.eq(bus.data),
                            self.o.valid.eq(1),
                            unread.eq(unread - 1),
                        ]
        return m

"""The payload of a frame that is held, as a stream of words."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from rtl.primitives.memory import Memory, ReadPort
from rtl.primitives.pipeline import stages

AHEAD = 8


class PayloadReader(wiring.Component):
    """Reads words of a memory from word 0 on, a word a cycle, as they are taken.

    Parameters
    ----------
    depth
        Words of the memory.

    Members
    -------
    start
        Pulse: read `words`, which are looked at with it.
    words
    payload : Out, ReadPort
    o : Out, stream of 32
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        super().__init__(
            {
                "start": In(1),
                "words": In(range(depth + 1)),
                "payload": Out(ReadPort(range(depth), 32)),
                "o": Out(stream.Signature(32)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        m.submodules.queue = queue = SyncFIFOBuffered(width=32, depth=AHEAD)
        left = Signal(range(self.depth + 1))
        credit = Signal(range(AHEAD + 1), init=AHEAD)
        asks, taken = Signal(), Signal()
        m.d.comb += [
            asks.eq((left != 0) & (credit != 0)),
            taken.eq(self.o.valid & self.o.ready),
            queue.w_data.eq(self.payload.data),
            queue.w_en.eq(stages(m, asks, Memory.latency, "arrives")[-1]),
            self.o.payload.eq(queue.r_data),
            self.o.valid.eq(queue.r_rdy),
            queue.r_en.eq(self.o.ready),
        ]
        m.d.sync += credit.eq(credit + taken - asks)
        with m.If(self.start):
            m.d.sync += [left.eq(self.words), self.payload.address.eq(0)]
        with m.Elif(asks):
            m.d.sync += [left.eq(left - 1), self.payload.address.eq(self.payload.address + 1)]
        return m

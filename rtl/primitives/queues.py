"""The two registers between a stream's source and its sink."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class SkidBuffer(wiring.Component):
    """A stream cut by registers in both directions, a payload a cycle.

    What the sink says in a cycle reaches the source in the next, so that no logic of the source
    hangs on it; the payload that comes meanwhile waits in a second register.

    Parameters
    ----------
    shape
        Shape of the payload.

    Members
    -------
    i : In, stream
    o : Out, stream

    Attributes
    ----------
    latency
        Cycles from i to o: 1, while o is taken.
    capacity
        Payloads that it holds: 2.
    """

    latency = 1
    capacity = 2

    def __init__(self, shape: ShapeLike) -> None:
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        skid, skidded = Signal(self.shape), Signal()
        m.d.comb += self.i.ready.eq(~skidded)
        with m.If(self.i.ready):
            m.d.sync += skid.eq(self.i.payload)
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [
                self.o.payload.eq(Mux(skidded, skid, self.i.payload)),
                self.o.valid.eq(skidded | self.i.valid),
                skidded.eq(0),
            ]
        with m.Elif(self.i.valid & self.i.ready):
            m.d.sync += skidded.eq(1)
        return m


class OneDeepQueue(wiring.Component):
    """A stream through one register, which is full or empty: a payload every two cycles at most.

    Parameters
    ----------
    shape
        Shape of the payload.

    Members
    -------
    i : In, stream
        Ready while the queue is empty.
    o : Out, stream
        Valid while it is full.

    Attributes
    ----------
    latency
        Cycles from i to o: 1.
    capacity
        Payloads that it holds: 1.
    """

    latency = 1
    capacity = 1

    def __init__(self, shape: ShapeLike) -> None:
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        m.d.comb += self.i.ready.eq(~self.o.valid)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [self.o.payload.eq(self.i.payload), self.o.valid.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m

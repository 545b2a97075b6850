"""A register between a stream's source and its sink."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, ShapeLike, Signal
from amaranth.lib.stream import Signature as Stream

from rtl.primitives.members import In, Out, Unit


class OneDeepQueue(Unit):
    """A stream through one register, which is full or empty: a payload every two cycles at most.

    Parameters
    ----------
    shape
        Shape of the payload.

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
        super().__init__(
            i=In(Stream(shape), "Ready while the queue is empty."),
            o=Out(Stream(shape), "Valid while it is full."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        payload = Signal(self.shape, reset_less=True)
        m.d.comb += [self.i.ready.eq(~self.o.valid), self.o.payload.eq(payload)]
        # `valid` may come late in the cycle: it decides about one register, not about the payload.
        with m.If(~self.o.valid):
            m.d.sync += [payload.eq(self.i.payload), self.o.valid.eq(self.i.valid)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m

"""Activation functions: a table of 256 int8 codes in each lane."""

from amaranth.hdl import Module, signed, unsigned
from amaranth.lib import data
from amaranth.lib.wiring import connect, flipped

from rtl.interface.ports.loading import TableWrite
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.memory import READ_LATENCY, Memory


class ActivationTable(Unit):
    """o = table[i & 255] in each lane: GELU, tanh, ReLU or any other function of an int8 code.

    The table is written through a port of its own, to all lanes at once; it starts as zeros. One
    word a cycle, no valid. Memories: one of 256 x 8 bits a lane. Multipliers: none.

    Attributes
    ----------
    latency
        Cycles from i to o: 2. An entry written in cycle t acts on the i of cycle t + 1.
    """

    latency = READ_LATENCY

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        super().__init__(
            i=In(data.ArrayLayout(signed(8), lanes)),
            o=Out(data.ArrayLayout(signed(8), lanes)),
            write=In(TableWrite(), "Entry c holds the value of c (0..127) or c - 256."),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for lane in range(self.lanes):
            table = Memory(unsigned(8), 256)
            m.submodules[f"table{lane}"] = table
            m.d.comb += [
                table.read.address.eq(self.i[lane].as_unsigned()),
                self.o[lane].eq(table.read.data.as_signed()),
            ]
            connect(m, flipped(self.write), table.write)
        return m

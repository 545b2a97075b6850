"""The kinds of memory of the design: block RAM with an output register, and distributed RAM."""

from collections.abc import Sequence

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib import memory

from rtl.primitives.members import Bundle, In, Out, Unit
from rtl.primitives.pipeline import delay

READ_LATENCY = 2


class ReadPort(Bundle):
    """Read port of a memory, from its reader."""

    def __init__(self, address: ShapeLike, word: ShapeLike) -> None:
        super().__init__(
            address=Out(address, "Looked at in every cycle."),
            data=In(word, "The word at the address of `Memory.latency` cycles before."),
        )


class WritePort(Bundle):
    """Write port of a memory, from its writer."""

    def __init__(self, address: ShapeLike, word: ShapeLike, lanes: int = 1) -> None:
        super().__init__(
            en=Out(
                lanes,
                "data, or that lane of it, is written; addresses from the next cycle on read it.",
            ),
            address=Out(address, "Valid with en."),
            data=Out(word, ...),
        )


class Memory(Unit):
    """Simple dual-port memory: one read and one write a cycle.

    read.data is the word at read.address two cycles later: the block RAM, and a register between
    its slow output and any logic. A word written in cycle t can be read by an address given in
    cycle t + 1 or later. Read in cycle t itself it has no meaning: no unit may use it, so that
    synthesis need not guard against it (Yosys: -no-rw-check). All words start as zero.

    Parameters
    ----------
    shape
        Shape of a word.
    depth
        Words.
    by_lane
        Lanes that are written apart: shape is an array of so many. 1: words are written whole.

    Attributes
    ----------
    latency
        Cycles from read.address to read.data: 2.
    """

    latency = READ_LATENCY

    def __init__(self, shape: ShapeLike, depth: int, by_lane: int = 1) -> None:
        self.shape, self.depth, self.by_lane = shape, depth, by_lane
        super().__init__(
            read=In(ReadPort(range(depth), shape)),
            write=In(WritePort(range(depth), shape, by_lane)),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.ram = ram = memory.Memory(shape=self.shape, depth=self.depth, init=[])
        write = ram.write_port(granularity=1 if self.by_lane > 1 else None)
        read = ram.read_port()
        m.d.comb += [
            write.addr.eq(self.write.address),
            write.data.eq(self.write.data),
            write.en.eq(self.write.en),
            read.addr.eq(self.read.address),
            read.en.eq(1),
            self.read.data.eq(delay(m, read.data, READ_LATENCY - 1, "output")),
        ]
        return m


class DistributedMemory(Unit):
    """A few words that are read in the cycle of their address: distributed RAM.

    A word written in cycle t is read from cycle t + 1 on. All words start as zero.

    Parameters
    ----------
    shape
        Shape of a word.
    depth
        Words.

    Attributes
    ----------
    latency
        Cycles from read.address to read.data: 0.
    """

    latency = 0

    def __init__(self, shape: ShapeLike, depth: int) -> None:
        self.shape, self.depth = shape, depth
        super().__init__(
            read=In(ReadPort(range(depth), shape)),
            write=In(WritePort(range(depth), shape)),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        if self.depth == 1:  # synthesisers warn of a memory of one word
            word = Signal(self.shape, reset_less=True)
            with m.If(self.write.en):
                m.d.sync += word.eq(self.write.data)
            m.d.comb += self.read.data.eq(word)
            return m
        m.submodules.ram = ram = memory.Memory(shape=self.shape, depth=self.depth, init=[])
        write, read = ram.write_port(), ram.read_port(domain="comb")
        m.d.comb += [
            write.addr.eq(self.write.address),
            write.data.eq(self.write.data),
            write.en.eq(self.write.en),
            read.addr.eq(self.read.address),
            self.read.data.eq(read.data),
        ]
        return m


class Rom(Unit):
    """Read-only table with one or two read ports; the two share one true dual-port block RAM.

    Parameters
    ----------
    shape
        Shape of an entry.
    init
        The entries, integers.
    ports
        1 or 2.

    Attributes
    ----------
    latency
        Cycles from address to data: 2.
    """

    latency = READ_LATENCY

    def __init__(self, shape: ShapeLike, init: Sequence[int], ports: int = 1) -> None:
        self.shape, self.init, self.ports = shape, init, ports
        members = {}
        for port in range(ports):
            members[f"address{port}"] = In(range(len(init)))
            members[f"data{port}"] = Out(shape, "The entry at the address of two cycles before.")
        super().__init__(**members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.rom = rom = memory.Memory(
            shape=self.shape, depth=len(self.init), init=self.init
        )
        for port in range(self.ports):
            read = rom.read_port()
            m.d.comb += [
                read.addr.eq(getattr(self, f"address{port}")),
                read.en.eq(1),
                getattr(self, f"data{port}").eq(
                    delay(m, read.data, READ_LATENCY - 1, f"output{port}")
                ),
            ]
        return m

"""The frames of `boards.protocol` in gateware."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from boards.protocol import CRC_BYTES, ESCAPE, FLAG, HEAD, INVERT
from rtl.control.crc import Crc, after
from rtl.primitives.memory import Memory, ReadPort

AROUND = HEAD.size + CRC_BYTES


class Head(data.StructLayout):
    """What stands before the payload, in the order of its bytes."""

    def __init__(self) -> None:
        super().__init__({"kind": 8, "number": 8, "length": 16})


class FrameReceiver(wiring.Component):
    """Takes frames apart, and holds one that came whole until it is released.

    What comes while a frame is held is dropped, and so is the frame of which a part was dropped: a
    host that waits for replies sends nothing then.

    Parameters
    ----------
    longest
        Bytes of the longest payload, a multiple of 4.

    Members
    -------
    valid, data
        A byte of the line, for one cycle.
    held
        A frame is held; `head` and `payload` belong to it.
    head : Out, Head
    payload : In, ReadPort
        Its payload in words of 32 bits, the first byte in the lowest bits.
    release
        Pulse: it is not held any more.
    damaged
        Pulse: what lay between two flags was no frame.
    """

    def __init__(self, longest: int) -> None:
        if longest <= 0 or longest % 4:
            raise ValueError(f"FrameReceiver: longest is {longest}: it must be a multiple of 4")
        self.longest = longest
        super().__init__(
            {
                "valid": In(1),
                "data": In(8),
                "held": Out(1),
                "head": Out(Head()),
                "payload": In(ReadPort(range(longest // 4 + 1), 32)),
                "release": In(1),
                "damaged": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        m.submodules.memory = memory = Memory(32, self.longest // 4 + 1)
        wiring.connect(m, wiring.flipped(self.payload), memory.read)
        flag, escape = self.data == FLAG, self.data == ESCAPE
        escaped, dropped, over = Signal(), Signal(), Signal()
        count = Signal(range(AROUND + self.longest + 1))
        byte, taken = Signal(8), Signal()
        m.d.comb += [
            byte.eq(Mux(escaped, self.data ^ INVERT, self.data)),
            taken.eq(self.valid & ~self.held & ~flag & (escaped | ~escape)),
        ]
        begin = Signal()
        crc = Crc(8)
        m.submodules.crc = ResetInserter(begin)(crc)
        full = count == AROUND + self.longest
        word = Signal(32)
        m.d.comb += [
            crc.en.eq(taken & ~full),
            crc.data.eq(byte),
            memory.write.data.eq(Cat(word[8:], byte)),
            memory.write.address.eq((count >> 2) - 1),
            memory.write.en.eq(taken & ~full & (count[:2] == 3) & (count >= 2 * HEAD.size - 1)),
        ]
        with m.If(taken):
            m.d.sync += escaped.eq(0)
            with m.If(full):
                m.d.sync += over.eq(1)
            with m.Else():
                m.d.sync += [count.eq(count + 1), word.eq(Cat(word[8:], byte))]
                with m.If(count < HEAD.size):
                    m.d.sync += self.head.as_value().eq(Cat(self.head.as_value()[8:], byte))
        with m.If(self.valid & ~self.held & ~flag & escape & ~escaped):
            m.d.sync += escaped.eq(1)
        with m.If(self.valid & self.held):
            m.d.sync += dropped.eq(~flag)

        # The end; the CRC knows the last byte a cycle after it came, and a flag comes later still.
        ends = self.valid & flag & ~self.held
        good = crc.good & (count == self.head.length + AROUND) & ~escaped & ~over
        m.d.sync += self.damaged.eq(0)
        m.d.comb += begin.eq(ends | self.release)
        with m.If(ends):
            m.d.sync += [count.eq(0), escaped.eq(0), over.eq(0), dropped.eq(0)]
            with m.If(~dropped & (count.any() | escaped | over)):
                m.d.sync += [self.held.eq(good), self.damaged.eq(~good)]
        with m.If(self.release):
            m.d.sync += self.held.eq(0)
        return m


class FrameSender(wiring.Component):
    """Puts frames together.

    Members
    -------
    i : In, stream of Head
        The head of a frame; taken with its last byte.
    payload : In, stream of 8
        `length` bytes.
    o : Out, stream of 8
        The bytes of the line, flags and escapes among them.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(Head())),
                "payload": In(stream.Signature(8)),
                "o": Out(stream.Signature(8)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        head = self.i.payload
        left = Signal(16)
        crc = Signal(32)
        escaped = Signal()
        byte, given, moves = Signal(8), Signal(), Signal()
        special = (byte == FLAG) | (byte == ESCAPE)
        # A byte that is special is sent as two.
        m.d.comb += [
            self.o.valid.eq(given),
            self.o.payload.eq(Mux(escaped, byte ^ INVERT, Mux(special, ESCAPE, byte))),
            moves.eq(given & self.o.ready & (escaped | ~special)),
        ]
        with m.If(given & self.o.ready):
            m.d.sync += escaped.eq(special & ~escaped)

        images = [after(1 << i, 0, 8) for i in range(32)] + [after(0, 1 << i, 8) for i in range(8)]
        sources = [*crc, *byte]
        follows = [
            Cat(*(s for s, image in zip(sources, images) if image >> bit & 1)).xor()
            for bit in range(32)
        ]

        def plain(value: int) -> None:
            """A flag, as it stands."""
            m.d.comb += [self.o.valid.eq(self.i.valid), self.o.payload.eq(value)]

        with m.FSM(name="part"):
            with m.State("BEGIN"):
                plain(FLAG)
                m.d.sync += [crc.eq(0xFFFFFFFF), left.eq(HEAD.size - 1)]
                with m.If(self.i.valid & self.o.ready):
                    m.next = "HEAD"
            with m.State("HEAD"):
                m.d.comb += [
                    given.eq(1),
                    byte.eq(head.as_value().word_select(~left[:2], 8)),
                ]
                with m.If(moves):
                    m.d.sync += [left.eq(left - 1), crc.eq(Cat(*follows))]
                    with m.If(left == 0):
                        m.d.sync += left.eq(head.length)
                        m.next = "PAYLOAD"
            with m.State("PAYLOAD"):
                with m.If(left == 0):
                    m.d.sync += [left.eq(CRC_BYTES - 1), crc.eq(~crc)]
                    m.next = "CRC"
                with m.Else():
                    m.d.comb += [
                        given.eq(self.payload.valid),
                        byte.eq(self.payload.payload),
                        self.payload.ready.eq(moves),
                    ]
                    with m.If(moves):
                        m.d.sync += [left.eq(left - 1), crc.eq(Cat(*follows))]
            with m.State("CRC"):
                m.d.comb += [given.eq(1), byte.eq(crc[:8])]
                with m.If(moves):
                    m.d.sync += [left.eq(left - 1), crc.eq(crc >> 8)]
                    with m.If(left == 0):
                        m.next = "END"
            with m.State("END"):
                plain(FLAG)
                m.d.comb += self.i.ready.eq(self.o.ready)
                with m.If(self.o.ready):
                    m.next = "BEGIN"
        return m

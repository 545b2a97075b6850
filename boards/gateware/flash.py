"""Reading of a serial NOR flash: bytes from an address on, as long as they are taken."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.primitives.parameters import check

WAKE, FAST_READ = 0xAB, 0x0B
"""Release from power-down, which configuration may leave the flash in; read with a dummy byte."""
ADDRESS_BITS = 24


class SpiPins(wiring.Signature):
    """Pins of the flash, from the reader: SPI mode 0, the highest bit first.

    Members
    -------
    select
        High where the chip's own pin is low.
    clock, o, i
        SCK; data to the flash and from it.
    """

    def __init__(self) -> None:
        super().__init__({"select": Out(1), "clock": Out(1), "o": Out(1), "i": In(1)})


class FlashReader(wiring.Component):
    """Reads bytes from an address on with one FAST READ; its clock rests while none is taken.

    Once after its own reset it wakes the flash. `o` and `select` change with the falling edge of
    SCK, `i` is taken at the rising edge, where the flash has had half a period for it.

    Parameters
    ----------
    half
        Clock cycles of half a period of SCK, 1 to 255.
    wake
        Clock cycles that the flash needs between WAKE and its first command (tRES1, 30 us), and
        rests between two reads.

    Members
    -------
    start
        Pulse while `busy` is low: read from `address` on.
    stop
        Pulse: no more bytes are wanted. One that is offered is withdrawn.
    address
        Of the first byte; looked at with `start`.
    busy
        A read is under way, or the flash is being woken.
    o : Out, stream of 8
    pins : Out, SpiPins
    """

    def __init__(self, half: int, wake: int) -> None:
        self.half = check("FlashReader", "half", half, 1, 255)
        self.wake = check("FlashReader", "wake", wake, 1, 1 << 20)
        super().__init__(
            {
                "start": In(1),
                "stop": In(1),
                "address": In(ADDRESS_BITS),
                "busy": Out(1, init=1),
                "o": Out(stream.Signature(8)),
                "pins": Out(SpiPins()),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        pins = self.pins
        # What goes out, the highest bit first: command, address, dummy byte.
        out = Signal(8 + ADDRESS_BITS + 8)
        left = Signal(range(len(out) + 1))
        wait = Signal(range(max(self.wake, self.half)), init=self.wake - 1)
        waking, reading = Signal(init=1), Signal()
        m.d.comb += pins.o.eq(out[-1])
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)

        def select(bits: int) -> None:
            m.d.sync += [
                left.eq(bits),
                reading.eq(0),
                pins.select.eq(1),
                wait.eq(self.half - 1),
            ]
            m.next = "LOW"

        def deselect() -> None:
            m.d.sync += [
                pins.select.eq(0),
                pins.clock.eq(0),
                self.o.valid.eq(0),
                waking.eq(0),
                wait.eq(self.wake - 1),
            ]
            m.next = "REST"

        with m.FSM(name="phase"):
            with m.State("REST"):
                with m.If((wait == 0) & waking):
                    m.d.sync += out.eq(WAKE << len(out) - 8)
                    select(8)
                with m.Elif(wait == 0):
                    m.d.sync += self.busy.eq(0)
                    m.next = "IDLE"
            with m.State("IDLE"):
                with m.If(self.start):
                    m.d.sync += [out.eq(Cat(C(0, 8), self.address, C(FAST_READ, 8)))]
                    m.d.sync += self.busy.eq(1)
                    select(len(out))
            with m.State("LOW"):
                # The clock rests here while a byte waits to be taken.
                with m.If((wait == 0) & ~self.o.valid):
                    m.d.sync += [
                        pins.clock.eq(1),
                        self.o.payload.eq(Cat(pins.i, self.o.payload[:-1])),
                        left.eq(left - 1),
                        wait.eq(self.half - 1),
                    ]
                    m.next = "HIGH"
                with m.If(self.stop & ~waking):
                    deselect()
            with m.State("HIGH"):
                with m.If(wait == 0):
                    m.d.sync += [pins.clock.eq(0), out.eq(out << 1), wait.eq(self.half - 1)]
                    m.next = "LOW"
                    with m.If(left == 0):
                        m.d.sync += [left.eq(8), reading.eq(1), self.o.valid.eq(reading)]
                        with m.If(waking):
                            deselect()
                with m.If(self.stop & ~waking):
                    deselect()
        return m

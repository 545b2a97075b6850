"""A serial line: bytes with one start bit, eight data bits from the lowest up, one stop bit."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

SHORTEST = 16
"""Clock cycles a bit, for the middle of a bit to be met."""
SKEW = 0.02
"""How far the rate may be off what was asked; the other side is off as well."""


def cycles_a_bit(megahertz: float, baud: int) -> int:
    """Clock cycles of a bit.

    Raises
    ------
    ValueError
        The clock is too slow for the rate, or no whole number of cycles comes near it.
    """
    exact = megahertz * 1e6 / baud
    cycles = round(exact)
    if exact < SHORTEST:
        raise ValueError(
            f"{baud} baud are too many for {megahertz:g} MHz: "
            f"{megahertz * 1e6 / SHORTEST:.0f} at most"
        )
    if abs(cycles / exact - 1) > SKEW:
        raise ValueError(
            f"{baud} baud at {megahertz:g} MHz are {exact:.2f} cycles a bit: take a rate near a "
            "whole number"
        )
    return cycles


class Receiver(wiring.Component):
    """Bytes from a line.

    A start bit is looked at again in its middle, so a spike is none; a byte whose stop bit is low
    is dropped, and the line has to be high before the next one.

    Parameters
    ----------
    bit
        Clock cycles of a bit, from `cycles_a_bit`.

    Members
    -------
    rx
        The pin; goes through two registers.
    valid, data
        A byte, for one cycle.
    """

    def __init__(self, bit: int) -> None:
        self.bit = bit
        super().__init__({"rx": In(1, init=1), "valid": Out(1), "data": Out(8)})

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        line = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.rx, line, init=1)
        wait = Signal(range(self.bit))
        left = Signal(range(9))
        m.d.sync += [self.valid.eq(0), wait.eq(wait - 1)]
        with m.FSM(name="line"):
            with m.State("IDLE"):
                with m.If(~line):
                    m.d.sync += wait.eq(self.bit // 2 - 1)
                    m.next = "START"
            with m.State("START"):
                with m.If(wait == 0):
                    m.d.sync += [wait.eq(self.bit - 1), left.eq(8)]
                    m.next = "BITS"
                    with m.If(line):
                        m.next = "IDLE"
            with m.State("BITS"):
                with m.If(wait == 0):
                    m.d.sync += [wait.eq(self.bit - 1), left.eq(left - 1)]
                    with m.If(left != 0):
                        m.d.sync += self.data.eq(Cat(self.data[1:], line))
                    with m.Else():
                        m.d.sync += self.valid.eq(line)
                        m.next = "HIGH"
            with m.State("HIGH"):
                with m.If(line):
                    m.next = "IDLE"
        return m


class Transmitter(wiring.Component):
    """Bytes onto a line, one after the other without a pause.

    Parameters
    ----------
    bit
        As for `Receiver`.

    Members
    -------
    i : In, stream of 8
    tx
        The pin; a register.
    """

    def __init__(self, bit: int) -> None:
        self.bit = bit
        super().__init__({"i": In(stream.Signature(8)), "tx": Out(1, init=1)})

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        wait = Signal(range(self.bit))
        # The bits that are to come, the stop bit above them; the line has the one before.
        bits, left = Signal(9), Signal(range(11))
        m.d.comb += self.i.ready.eq((left == 0) & (wait == 0))
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)
        with m.Elif(left != 0):
            m.d.sync += [
                self.tx.eq(bits[0]),
                bits.eq(Cat(bits[1:], 1)),
                left.eq(left - 1),
                wait.eq(self.bit - 1),
            ]
        with m.Elif(self.i.valid):
            m.d.sync += [
                self.tx.eq(0),
                bits.eq(Cat(self.i.payload, 1)),
                left.eq(9),
                wait.eq(self.bit - 1),
            ]
        return m

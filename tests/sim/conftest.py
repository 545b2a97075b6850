"""A small design for the tests of the flow, so that they need no unit of rtl/."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.interface.config import Config
from sim.design import Design, described


class Part(wiring.Component):
    """Running sum of i; `error` is added to each value."""

    def __init__(self, error: int) -> None:
        self.error = error
        super().__init__({"i": In(signed(8)), "o": Out(signed(16))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        total = Signal(signed(16))
        m.d.sync += total.eq(total + self.i + self.error)
        m.d.comb += self.o.eq(total)
        return m


class Accumulator(wiring.Component):
    """o is the sum of all i so far, one cycle later."""

    latency = 1

    def __init__(self, error: int = 0, named: bool = True) -> None:
        self.error, self.named = error, named
        super().__init__({"i": In(signed(8)), "o": Out(signed(16))})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        part = Part(self.error)
        if self.named:
            m.submodules.part = part
        else:
            m.submodules += part
        m.d.comb += [part.i.eq(self.i), self.o.eq(part.o)]
        return m


@pytest.fixture
def component() -> Callable[..., Accumulator]:
    """The component: component(error=0, named=True)."""
    return Accumulator


@pytest.fixture
def accumulator() -> Callable[..., Design]:
    """Its design: accumulator(error=0)."""

    def design(error: int = 0) -> Design:
        return described(Accumulator(error), "accumulator", Config(lanes=4))

    return design

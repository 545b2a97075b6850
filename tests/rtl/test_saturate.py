"""Saturation against min and max, for every value."""

from typing import Any

from amaranth.hdl import Module, Signal, signed
from amaranth.sim import Simulator

from rtl.primitives.saturate import saturate


def test_every_value() -> None:
    i, cuts = Signal(signed(9)), {bits: Signal(signed(12)) for bits in (2, 5, 8)}
    m = Module()
    for bits, o in cuts.items():
        m.d.comb += o.eq(saturate(i, bits))

    async def testbench(ctx: Any) -> None:
        for value in range(-256, 256):
            ctx.set(i, value)
            for bits, o in cuts.items():
                most = 2 ** (bits - 1) - 1
                assert ctx.get(o) == min(max(value, -most - 1), most), (value, bits)

    sim = Simulator(m)
    sim.add_testbench(testbench)
    sim.run()

"""The registers of the memory side, and the FIFOs behind them."""

from __future__ import annotations

from typing import Any

from amaranth.sim import Simulator

from rtl.dma.bus import Bus
from rtl.dma.registers import DmaRegisters
from rtl.interface.config import Config


def test_the_fifo_of_logits_takes_those_of_every_batch() -> None:
    """Nobody reads them before the interrupt, and that comes behind the last one."""
    config = Config(lanes=4, tokens=12, hidden=16, ffn=16, labels=300)
    unit = DmaRegisters(config, Bus(burst=8, outstanding=4))
    simulator = Simulator(unit)
    simulator.add_clock(1e-6)

    async def bench(ctx: Any) -> None:
        ctx.set(unit.logits.valid, 1)
        for logit in range(3 * 300):
            assert ctx.get(unit.logits.ready), logit
            await ctx.tick()
        ctx.set(unit.logits.valid, 0)
        await ctx.tick()
        assert ctx.get(unit.value.logits_waiting) == 900

    simulator.add_testbench(bench)
    simulator.run()

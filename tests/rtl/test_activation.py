# amaranth: UnusedElaboratable=no
"""ActivationTable against golden.activation."""

import numpy as np
import pytest
from amaranth.sim import SimulatorContext

from golden.activation import lookup
from rtl.activation import ActivationTable
from tb.pipelined import from_port, simulator, to_port


def rtl_lookup(table: np.ndarray, x: np.ndarray, latency: int) -> np.ndarray:
    """Write the table, a code a cycle, then look up one word of lanes a cycle."""
    unit = ActivationTable(x.shape[1])
    results = []

    async def drive(ctx: SimulatorContext) -> None:
        ctx.set(unit.write_en, 1)
        for code in range(256):
            ctx.set(unit.write_address, code)
            ctx.set(unit.write_data, int(table[code]) & 255)
            await ctx.tick()
        ctx.set(unit.write_en, 0)
        for word in x:
            ctx.set(unit.i, to_port(word))
            await ctx.tick()

    async def sample(ctx: SimulatorContext) -> None:
        await ctx.tick().repeat(256 + latency)
        for _ in x:
            *_, o = await ctx.tick().sample(unit.o)
            results.append(from_port(o))

    sim = simulator(unit)
    sim.add_testbench(drive)
    sim.add_testbench(sample)
    sim.run()
    return np.array(results, dtype=np.int8)


def test_all_codes_in_all_lanes() -> None:
    rng = np.random.default_rng(4)
    table = rng.permutation(np.arange(-128, 128)).astype(np.int8)
    codes = np.arange(-128, 128).astype(np.int8)
    x = np.stack([np.roll(codes, 17 * lane) for lane in range(4)], axis=1)
    np.testing.assert_array_equal(rtl_lookup(table, x, ActivationTable.latency), lookup(table, x))


def test_a_rewritten_table() -> None:
    """The last table written counts, entry by entry."""
    codes = np.arange(-128, 128).astype(np.int8)[:, None]
    table = (codes[:, 0] // 3).astype(np.int8)
    np.testing.assert_array_equal(rtl_lookup(table, codes, 2), lookup(table, codes))


def test_lanes_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"ActivationTable: lanes is -1: it must lie in 1..64"):
        ActivationTable(-1)

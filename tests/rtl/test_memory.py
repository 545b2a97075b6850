# amaranth: UnusedElaboratable=no
"""Memory and Rom: latency, order of reads and writes, parameters."""

import numpy as np
import pytest
from amaranth.hdl import signed, unsigned
from amaranth.lib import data
from amaranth.sim import SimulatorContext

from rtl.memory import Memory, Rom
from tb.pipelined import from_port, run_pipelined, simulator, to_port


@pytest.mark.parametrize("depth", [1, 5, 64])
def test_memory_random_traffic(depth: int) -> None:
    """Each read returns the last word written before its address was given."""
    rng = np.random.default_rng(depth)
    memory = Memory(data.ArrayLayout(signed(16), 3), depth)
    cycles = 400
    address = rng.integers(0, depth, (2, cycles))
    enable = rng.random(cycles) < 0.5
    words = rng.integers(-(1 << 15), 1 << 15, (cycles, 3))
    model = np.zeros((depth, 3), dtype=np.int64)
    expected = []
    for t in range(cycles):
        expected.append(model[address[0, t]].tolist())
        if enable[t]:
            model[address[1, t]] = words[t]
    seen = []

    async def drive(ctx: SimulatorContext) -> None:
        for t in range(cycles):
            ctx.set(memory.read_address, int(address[0, t]))
            ctx.set(memory.write_address, int(address[1, t]))
            ctx.set(memory.write_en, bool(enable[t]))
            ctx.set(memory.write_data, to_port(words[t]))
            await ctx.tick()

    async def sample(ctx: SimulatorContext) -> None:
        await ctx.tick().repeat(Memory.latency)
        for _ in range(cycles):
            *_, word = await ctx.tick().sample(memory.read_data)
            seen.append(from_port(word))

    sim = simulator(memory)
    sim.add_testbench(drive)
    sim.add_testbench(sample)
    sim.run()
    assert seen == expected


def test_rom_two_ports() -> None:
    init = np.random.default_rng(5).integers(-256, 256, 100)
    a, b = np.arange(100), np.arange(99, -1, -1)
    out = run_pipelined(
        Rom(signed(9), init.tolist(), ports=2), {"address0": a, "address1": b}, ("data0", "data1")
    )
    np.testing.assert_array_equal(out["data0"], init[a])
    np.testing.assert_array_equal(out["data1"], init[b])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Memory(8, 0), "Memory: depth is 0: it must lie in 1..16777216"),
        (lambda: Rom(8, [1], ports=3), "Rom: ports is 3: it must lie in 1..2"),
        (lambda: Rom(8, []), "Rom: number of entries is 0: it must lie in 1.."),
        (lambda: Rom(unsigned(8), [0, 256]), "Rom: entry 1 is 256: it must lie in 0..255"),
        (lambda: Rom(signed(4), [-9]), "Rom: entry 0 is -9: it must lie in -8..7"),
    ],
)
def test_parameters_out_of_range(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()

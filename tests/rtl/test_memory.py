# amaranth: UnusedElaboratable=no
"""Memory and Rom: latency, order of reads and writes, parameters."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import signed
from amaranth.lib import data

from rtl.primitives.memory import DistributedMemory, Memory, Rom
from tests.rtl.amaranth_ports import run_pipelined, simulate


def random_traffic(depth: int) -> tuple[dict[str, np.ndarray], list[list[int]]]:
    """Reads and writes, and what is read: the last word written in an earlier cycle."""
    rng = np.random.default_rng(depth)
    cycles = 400
    inputs = {
        "read_address": rng.integers(0, depth, cycles),
        "write_address": rng.integers(0, depth, cycles),
        "write_en": rng.integers(0, 2, cycles),
        "write_data": rng.integers(-(1 << 15), 1 << 15, (cycles, 3)),
    }
    words = np.zeros((depth, 3), dtype=np.int64)
    expected = []
    for t in range(cycles):
        expected.append(words[inputs["read_address"][t]].tolist())
        if inputs["write_en"][t]:
            words[inputs["write_address"][t]] = inputs["write_data"][t]
    if depth == 1:  # an address has no bits
        inputs = {name: words for name, words in inputs.items() if "address" not in name}
    return inputs, expected


@pytest.mark.parametrize("depth", [1, 5, 64])
def test_random_traffic(depth: int) -> None:
    inputs, expected = random_traffic(depth)
    memory = Memory(data.ArrayLayout(signed(16), 3), depth)
    found = run_pipelined(memory, inputs, ("read_data",))["read_data"]
    assert found.tolist() == expected


@pytest.mark.parametrize("depth", [1, 5, 64])
def test_random_traffic_read_at_once(depth: int) -> None:
    inputs, expected = random_traffic(depth)

    async def play(ports: Any) -> list[list[int]]:
        found = []
        for t in range(len(expected)):
            for name, words in inputs.items():
                ports.set(name, words[t].tolist())
            await ports.settle()
            found.append(list(ports.get("read_data")))
            await ports.tick()
        return found

    memory = DistributedMemory(data.ArrayLayout(signed(16), 3), depth)
    assert simulate(memory, play) == expected


def test_rom_with_two_ports() -> None:
    init = np.random.default_rng(5).integers(-256, 256, 100)
    a, b = np.arange(100), np.arange(99, -1, -1)
    rom = Rom(signed(9), init.tolist(), ports=2)
    found = run_pipelined(rom, {"address0": a, "address1": b}, ("data0", "data1"))
    np.testing.assert_array_equal(found["data0"], init[a])
    np.testing.assert_array_equal(found["data1"], init[b])

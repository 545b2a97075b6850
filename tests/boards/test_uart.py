"""The serial line: bytes both ways, with clocks that differ, spikes and broken stop bits."""

from __future__ import annotations

import random
from typing import Any

import pytest
from amaranth.sim import Simulator, SimulatorContext

from boards.gateware.uart import SHORTEST, Receiver, Transmitter, cycles_a_bit


def waveform(data: bytes, bit: float, rng: random.Random | None = None) -> list[int]:
    """The line in each cycle; with a generator, pauses of any length between bytes."""
    line, time = [1] * 7, 7.0

    def hold(level: int, cycles: float) -> None:
        nonlocal time
        time += cycles
        line.extend([level] * (round(time) - len(line)))

    for byte in data:
        for level in [0, *(byte >> i & 1 for i in range(8)), 1]:
            hold(level, bit)
        if rng:
            hold(1, rng.choice([0, 1, 3.3, 40]))
    hold(1, 3 * bit)
    return line


def heard(line: list[int], bit: int) -> bytes:
    unit: Any = Receiver(bit)
    data = bytearray()

    async def bench(ctx: SimulatorContext) -> None:
        for level in line:
            ctx.set(unit.rx, level)
            await ctx.tick()
            if ctx.get(unit.valid):
                data.append(ctx.get(unit.data))

    sim = Simulator(unit)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    return bytes(data)


@pytest.mark.parametrize("skew", [-0.03, 0, 0.03])
def test_bytes_of_a_clock_that_is_off(skew: float) -> None:
    rng, bit = random.Random(1), SHORTEST
    data = bytes([0, 255, 0x55, 0xAA, 1, 128]) + rng.randbytes(10)
    assert heard(waveform(data, bit * (1 + skew)), bit) == data
    assert heard(waveform(data, bit * (1 + skew), rng), bit) == data


def test_a_clock_that_is_far_off_is_not_understood() -> None:
    data = bytes([0x0F, 0xA5] * 8)
    assert heard(waveform(data, 16 * 1.2), 16) != data


def test_a_spike_is_no_start_bit() -> None:
    line = [1] * 20 + [0] * 5 + waveform(b"\x5a", 16)
    assert heard(line, 16) == b"\x5a"


def test_a_byte_without_its_stop_bit_is_dropped() -> None:
    """A line that stays low, as one does whose cable is out, gives no bytes at all."""
    broken = [1] * 7 + [0] * (16 * 40) + waveform(b"\x33", 16)
    assert heard(broken, 16) == b"\x33"


def said(data: bytes, bit: int, cycles: int) -> list[int]:
    unit: Any = Transmitter(bit)
    line: list[int] = []

    async def bench(ctx: SimulatorContext) -> None:
        place = 0
        for _ in range(cycles):
            ctx.set(unit.i.valid, place < len(data))
            ctx.set(unit.i.payload, data[min(place, len(data) - 1)])
            _, _, took, level = await ctx.tick().sample(unit.i.ready, unit.tx)
            line.append(level)
            place += took and place < len(data)

    sim = Simulator(unit)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    return line


def test_what_is_sent_is_ten_bits_each() -> None:
    data, bit = random.Random(3).randbytes(6), 9
    line = said(data, bit, cycles=10 * bit * len(data) + 20)
    begin = line.index(0)
    for place, byte in enumerate(data):
        for i, level in enumerate([0, *(byte >> i & 1 for i in range(8)), 1]):
            at = begin + (10 * place + i) * bit
            assert line[at : at + bit] == [level] * bit
    assert set(line[:begin] + line[begin + 10 * bit * len(data) :]) == {1}


def test_both_understand_each_other() -> None:
    data = random.Random(5).randbytes(10)
    assert heard(said(data, 11, cycles=11 * 10 * 10 + 40), 11) == data


@pytest.mark.parametrize(
    ("megahertz", "baud", "message"),
    [
        (8, 3_000_000, "3000000 baud are too many for 8 MHz: 500000 at most"),
        (25, 1_520_000, r"1520000 baud at 25 MHz are 16\.45 cycles a bit: take a rate near"),
    ],
)
def test_a_rate_that_cannot_be_met_is_refused(megahertz: float, baud: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cycles_a_bit(megahertz, baud)


def test_rates_that_can_be_met() -> None:
    assert cycles_a_bit(80, 1_000_000) == 80
    assert cycles_a_bit(80, 3_000_000) == 27
    assert cycles_a_bit(25, 115_200) == 217

# amaranth: UnusedElaboratable=no
"""The flash reader against a flash that knows its commands by the clock edges alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from amaranth.sim import Simulator, SimulatorContext

from boards.gateware.flash import FlashReader
from tests.damage import faulty

WAKE_CYCLES = 20


@dataclass
class Flash:
    """A NOR flash in SPI mode 0 that sleeps until it is woken; complains of what it would not take.

    half
        Shortest half period of SCK, in cycles.
    """

    data: bytes
    half: int
    complaints: list[str] = field(default_factory=list)
    woken_at: int | None = None

    def __post_init__(self) -> None:
        self._before = (0, 0, 0)
        self._changed = self._deselected = -1_000
        self._bits: list[int] = []
        self._answer = 1
        self._now = 0

    def cycle(self, select: int, clock: int, o: int) -> int:
        """The pins in a cycle; what the flash drives in the next."""
        self._now += 1
        before_select, before_clock, before_o = self._before
        self._before = (select, clock, o)
        if select != before_select and clock:
            self.complaints.append("select changes while the clock is high")
        if clock and o != before_o:
            self.complaints.append("data changes while the clock is high")
        if select and not before_select:
            self._bits, self._changed = [], self._now
            if self._now - self._deselected < 8:
                self.complaints.append("selected again too soon")
        if not select and before_select:
            self._deselected = self._now
            if self._bits and self._command() == 0xAB and len(self._bits) == 8:
                self.woken_at = self._now
        if select and clock != before_clock:
            if self._now - self._changed < self.half:
                self.complaints.append("the clock is too fast")
            self._changed = self._now
            if clock:
                self._bits.append(o)
            else:
                self._falling()
        return self._answer

    def _command(self) -> int:
        return int("".join(map(str, self._bits[:8])), 2)

    def _falling(self) -> None:
        """The next bit of a FAST READ, once command, address and dummy byte are there."""
        done = len(self._bits) - 40
        if len(self._bits) == 8 and self._command() != 0xAB:
            if self._command() != 0x0B:
                self.complaints.append(f"command {self._command():#x}")
            if self.woken_at is None or self._now - self.woken_at < WAKE_CYCLES:
                self.complaints.append("it sleeps")
        if done >= 0:
            address = int("".join(map(str, self._bits[8:32])), 2) + done // 8
            self._answer = self.data[address % len(self.data)] >> 7 - done % 8 & 1
        else:
            self._answer = 1


def read(unit: Any, flash: Flash, reads: list[tuple[int, int]], pause: float = 0.0) -> list[bytes]:
    """The bytes of reads (address, count), stopped after the last."""
    found: list[bytes] = []
    rng = random.Random(1)

    async def chip(ctx: SimulatorContext) -> None:
        pins = unit.pins
        async for _, _, *sampled in ctx.tick().sample(pins.select, pins.clock, pins.o):
            ctx.set(pins.i, flash.cycle(*map(int, sampled)))

    async def client(ctx: SimulatorContext) -> None:
        for address, count in reads:
            for _ in range(400):
                if not ctx.get(unit.busy):
                    break
                await ctx.tick()
            ctx.set(unit.address, address)
            ctx.set(unit.start, 1)
            await ctx.tick()
            ctx.set(unit.start, 0)
            data, silent = bytearray(), 0
            while len(data) < count and silent < 400:
                ready = rng.random() >= pause
                ctx.set(unit.o.ready, ready)
                _, _, valid, byte = await ctx.tick().sample(unit.o.valid, unit.o.payload)
                silent += 1
                if valid and ready:
                    data.append(byte)
                    silent = 0
            ctx.set(unit.o.ready, 0)
            for _ in range(rng.randrange(30)):
                await ctx.tick()
            ctx.set(unit.stop, 1)
            await ctx.tick()
            ctx.set(unit.stop, 0)
            found.append(bytes(data))

    sim = Simulator(unit)
    sim.add_clock(1e-8)
    sim.add_testbench(chip, background=True)
    sim.add_testbench(client)
    sim.run()
    return found


DATA = random.Random(2).randbytes(1 << 12)


@pytest.mark.parametrize(("half", "pause"), [(2, 0.0), (3, 0.9)])
def test_bytes_come_from_any_address_on(half: int, pause: float) -> None:
    rng = random.Random(half)
    reads = [(rng.randrange(len(DATA) - 40), rng.randint(1, 12)) for _ in range(4)]
    flash = Flash(DATA, half)
    found = read(FlashReader(half, WAKE_CYCLES), flash, reads, pause)
    assert found == [DATA[a : a + n] for a, n in reads]
    assert not flash.complaints


def test_a_byte_takes_sixteen_half_periods() -> None:
    flash = Flash(DATA, 2)
    unit = FlashReader(2, WAKE_CYCLES)
    read(unit, flash, [(0, 100)])
    began = flash.woken_at or 0
    # Rest, the header of 40 bits, then 100 bytes of 16 half periods and what one costs to be taken.
    assert flash._deselected - began < WAKE_CYCLES + 40 * 4 + 100 * (16 * 2 + 2) + 60


FAULTS = [
    ("WAKE, FAST_READ = 0xAB, 0x0B", "WAKE, FAST_READ = 0xAB, 0x03"),
    ("WAKE, FAST_READ = 0xAB, 0x0B", "WAKE, FAST_READ = 0xFF, 0x0B"),
    ("Cat(pins.i, self.o.payload[:-1])", "Cat(self.o.payload[1:], pins.i)"),
    ("(wait == 0) & ~self.o.valid", "wait == 0"),
    ("8 + ADDRESS_BITS + 8)", "8 + ADDRESS_BITS)"),
    ("wait.eq(self.wake - 1),", "wait.eq(0),"),
    ("out.eq(out << 1), wait.eq(self.half - 1)", "out.eq(out << 1), wait.eq(0)"),
    ("self.o.valid.eq(reading)", "self.o.valid.eq(1)"),
]


@pytest.mark.parametrize(("old", "new"), FAULTS)
def test_a_fault_is_seen(old: str, new: str) -> None:
    module = faulty("boards/gateware/flash", (old, new))
    flash = Flash(DATA, 3)
    reads = [(0x123, 6), (0xABC, 5)]
    found = read(module.FlashReader(3, WAKE_CYCLES), flash, reads, pause=0.9)
    assert found != [DATA[a : a + n] for a, n in reads] or flash.complaints


@pytest.mark.parametrize(
    ("half", "wake", "message"),
    [
        (0, 5, "FlashReader: half is 0: it must lie in 1..255"),
        (2, 0, "FlashReader: wake is 0: it must lie in 1..1048576"),
    ],
)
def test_numbers_that_cannot_be_are_refused(half: int, wake: int, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        FlashReader(half, wake)
    assert str(refused.value) == message

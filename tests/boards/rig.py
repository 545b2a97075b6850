"""The SDRAM controller in Amaranth's simulator, between a chip and a client of a plain array."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Cat
from amaranth.sim import Simulator, SimulatorContext

from boards.gateware.chip import Chip
from boards.gateware.sdram import Sdram
from boards.simulation.chip import ChipModel, Violation

#: A chip of 8 rows a bank that is up at once and has to be refreshed often.
SMALL = Chip(row_bits=3, column_bits=4, power_up=500, refresh=8 * 1_500, ras_max=20_000)


@dataclass
class Played:
    """What came of it: words read that were wrong, violations, cycles, words."""

    wrong: list[str] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    cycles: int = 0
    words: int = 0
    refreshes: int = 0

    @property
    def broken(self) -> set[str]:
        return {violation.rule for violation in self.violations}


def play(
    unit: Any,
    requests: list[tuple[bool, int, int]],
    *,
    chip: Chip = SMALL,
    real: Chip | None = None,
    megahertz: float = 100,
    seed: int = 0,
    pause: float = 0.0,
    patience: int = 5_000,
    idle: int = 0,
) -> Played:
    """Play (write, address, words) on the controller; words written are drawn from the seed.

    real
        The chip that is there, if not the one that the controller was made for.
    pause
        How often each side of a stream rests.
    idle
        Cycles after the last word.
    """
    model = ChipModel(real or chip, megahertz)
    rng = random.Random(seed)
    size = 1 << chip.address_bits
    plain = [model.peek(address) for address in range(size)] if size <= 1 << 16 else None
    give: list[int] = []
    expect: list[tuple[int, int | None]] = []
    for write, address, words in requests:
        for place in range(address, address + words):
            place %= size
            if write:
                give.append(rng.randrange(1 << 16))
                assert plain is not None
                plain[place] = give[-1]
            else:
                expect.append((place, plain[place] if plain is not None else model.peek(place)))
    played = Played()
    sim = Simulator(unit)
    sim.add_clock(1e-8)
    pins = unit.pins
    sampled = Cat(pins.command, pins.bank, pins.address, pins.mask, pins.o, pins.oe, pins.enable)

    async def chip_side(ctx: SimulatorContext) -> None:
        async for _, _, value in ctx.tick().sample(sampled):
            answer = model.clock(
                value & 7,
                value >> 3 & 3,
                value >> 5 & 0x1FFF,
                mask=value >> 18 & 3,
                o=value >> 20 & 0xFFFF if value >> 36 & 1 else None,
                enable=value >> 37 & 1,
            )
            ctx.set(pins.i, 0xBAD0 if answer is None else answer)

    async def accepted(ctx: SimulatorContext, stream: Any) -> None:
        while True:
            _, _, ready = await ctx.tick().sample(stream.ready)
            if ready:
                return

    async def asks(ctx: SimulatorContext) -> None:
        for write, address, words in requests:
            while rng.random() < pause:
                await ctx.tick()
            ctx.set(unit.request.payload, {"write": write, "address": address, "last": words - 1})
            ctx.set(unit.request.valid, 1)
            await accepted(ctx, unit.request)
            ctx.set(unit.request.valid, 0)

    async def writes(ctx: SimulatorContext) -> None:
        for word in give:
            while rng.random() < pause:
                await ctx.tick()
            ctx.set(unit.write.payload, word)
            ctx.set(unit.write.valid, 1)
            await accepted(ctx, unit.write)
            ctx.set(unit.write.valid, 0)

    async def reads(ctx: SimulatorContext) -> None:
        silent = 0
        waiting = list(reversed(expect))
        taken = unit.write.ready & unit.write.valid
        left = len(give)
        while (waiting or left) and silent < patience:
            resting = rng.random() < pause
            ctx.set(unit.read.ready, not resting)
            _, _, valid, word, wrote = await ctx.tick().sample(
                unit.read.valid, unit.read.payload, taken
            )
            silent += 1
            played.cycles += unit_ready(ctx)
            if wrote:
                left, silent = left - 1, 0
            if valid and not resting:
                silent = 0
                if not waiting:
                    played.wrong.append("a word too many")
                    continue
                place, right = waiting.pop()
                played.words += 1
                if word != right:
                    played.wrong.append(f"word {place}: {word:#06x}, not {right:#06x}")
        if waiting or left:
            played.wrong.append(f"{len(waiting)} words to read and {left} to write never went")
        ctx.set(unit.read.ready, 1)
        for _ in range(idle + 8):
            _, _, valid = await ctx.tick().sample(unit.read.valid)
            if valid:
                played.wrong.append("a word too many")

    def unit_ready(ctx: SimulatorContext) -> int:
        return int(ctx.get(unit.ready))

    sim.add_testbench(chip_side, background=True)
    sim.add_testbench(asks, background=True)
    sim.add_testbench(writes, background=True)
    sim.add_testbench(reads)
    sim.run()
    played.violations, played.refreshes = model.violations, model.refreshes
    if plain is not None:
        left = [a for a in range(size) if model.peek(a) != plain[a]]
        if left:
            played.wrong.append(f"{len(left)} words in the chip are not what was written")
    model.close()
    return played


def drawn(rng: random.Random, chip: Chip, count: int, longest: int) -> list[tuple[bool, int, int]]:
    """Reads and writes of any place and length; some lengths next to a row's."""
    size = 1 << chip.address_bits
    row = 1 << chip.column_bits
    requests = []
    for _ in range(count):
        words = rng.choice([1, 2, row - 1, row, row + 1, rng.randint(1, longest)])
        address = rng.randrange(size)
        if rng.random() < 0.3:
            address -= address % row
        if rng.random() < 0.3 and requests:  # the place of an earlier one
            address = rng.choice(requests)[1]
        requests.append((rng.random() < 0.5, address, min(words, longest)))
    return requests


def controller(chip: Chip = SMALL, megahertz: float = 100, **options: Any) -> Sdram:
    return Sdram(chip, megahertz, length_bits=8, **options)

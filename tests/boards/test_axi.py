# amaranth: UnusedElaboratable=no
"""AXI4 reads of the SDRAM: each beat is what the chip holds, in the order of the bursts."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.sim import Simulator, SimulatorContext

from boards.gateware.axi import DECERR, OKAY, AxiMemory
from boards.gateware.chip import Chip
from boards.gateware.sdram import Sdram
from boards.simulation.chip import ChipModel
from rtl.dma.bus import Bus
from tests.boards.rig import SMALL
from tests.damage import faulty

#: 64 KiB.
CHIP = replace(SMALL, row_bits=6, column_bits=7, refresh=64 * 7_800)
BYTES = 2 << CHIP.address_bits
MHZ = 100


class Joined(wiring.Component):
    """Controller and AXI, as on the board."""

    def __init__(self, bus: Bus, chip: Chip, axi: Any = AxiMemory) -> None:
        self.axi = axi(bus, chip)
        self.sdram = Sdram(chip, MHZ)
        super().__init__({})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.axi, m.submodules.sdram = self.axi, self.sdram
        wiring.connect(m, self.axi.request, self.sdram.request)
        wiring.connect(m, self.sdram.read, self.axi.read)
        return m


Burst = dict[str, int]
Beat = tuple[int, int, int, int]  # data, resp, id, last


def expected(bursts: list[Burst], bus: Bus, chip: ChipModel) -> list[Beat]:
    """By the rules of AXI and the chip's contents; an address that is wrong reads as anything."""
    beats = []
    for b in bursts:
        end = b["araddr"] + (b["arlen"] + 1) * bus.data_bytes
        sound = b["araddr"] % bus.data_bytes == 0 and end <= BYTES
        sound = sound and b["arsize"] == bus.shift and b["arburst"] == 1
        for i in range(b["arlen"] + 1):
            word = (b["araddr"] + i * bus.data_bytes) // 2
            value = -1
            if sound:
                parts = [chip.peek(word + k) for k in range(bus.data_bytes // 2)]
                value = sum(part << 16 * k for k, part in enumerate(parts))
            beats.append((value, OKAY if sound else DECERR, b["arid"], int(i == b["arlen"])))
    return beats


def played(
    bus: Bus, bursts: list[Burst], pause: float = 0.0, seed: int = 0, axi: Any = AxiMemory
) -> tuple[list[Beat], list[Beat], list[Any], int]:
    """The beats, those that are right, what the chip complains of, cycles until the last."""
    unit = Joined(bus, CHIP, axi)
    model = ChipModel(CHIP, MHZ)
    rng = random.Random(seed)
    port, pins = unit.axi.s_axi, unit.sdram.pins
    right = expected(bursts, bus, model)
    beats: list[Beat] = []
    cycles = 0

    async def chip_side(ctx: SimulatorContext) -> None:
        sampled = Cat(pins.command, pins.bank, pins.address, pins.mask, pins.enable)
        async for _, _, value in ctx.tick().sample(sampled):
            answer = model.clock(
                value & 7,
                value >> 3 & 3,
                value >> 5 & 0x1FFF,
                mask=value >> 18 & 3,
                enable=value >> 20,
            )
            ctx.set(pins.i, 0xBAD0 if answer is None else answer)

    async def asks(ctx: SimulatorContext) -> None:
        for burst in bursts:
            while rng.random() < pause:
                await ctx.tick()
            for name, value in burst.items():
                ctx.set(getattr(port, name), value)
            ctx.set(port.arvalid, 1)
            while not (await ctx.tick().sample(port.arready))[2]:
                pass
            ctx.set(port.arvalid, 0)

    async def takes(ctx: SimulatorContext) -> None:
        nonlocal cycles
        silent = 0
        offered = None
        while silent < 400 and len(beats) < len(right) + 1:
            ready = rng.random() >= pause
            ctx.set(port.rready, ready)
            _, _, valid, *beat = await ctx.tick().sample(
                port.rvalid, port.rdata, port.rresp, port.rid, port.rlast
            )
            if ctx.get(unit.sdram.ready):
                silent += 1
                cycles += len(beats) < len(right)
            if offered is not None:  # what was offered and not taken stays
                assert (valid, *beat) == offered
            offered = (valid, *beat) if valid and not ready else None
            if valid and ready:
                silent = 0
                place = len(beats)
                known = place < len(right) and right[place][0] >= 0
                beats.append((beat[0] if known else -1, *beat[1:]))

    sim = Simulator(unit)
    sim.add_clock(1e-8)
    for bench in (chip_side, asks):
        sim.add_testbench(bench, background=True)
    sim.add_testbench(takes)
    sim.run()
    complaints = model.violations
    model.close()
    return beats, right, complaints, cycles


def burst(bus: Bus, address: int, beats: int, **other: int) -> Burst:
    found = {"araddr": address, "arlen": beats - 1, "arsize": bus.shift, "arburst": 1, "arid": 0}
    return found | other


def drawn(rng: random.Random, bus: Bus, count: int) -> list[Burst]:
    """Sound ones, and some that are wrong in one way."""
    bursts = []
    for _ in range(count):
        beats = rng.choice([1, 2, 16, rng.randint(1, 40)])
        address = rng.randrange(BYTES // bus.data_bytes - beats + 1) * bus.data_bytes
        made = burst(bus, address, beats, arid=rng.randrange(2))
        wrong = rng.choice(
            [
                {},
                {},
                {},
                {},
                {"arburst": rng.choice([0, 2])},
                {"arsize": 0},
                {"araddr": BYTES - bus.data_bytes * (beats - 1)},
                {"araddr": BYTES + address},
                {"araddr": 1 << 31 | address},
                {"araddr": address + rng.randrange(1, bus.data_bytes)},
            ]
        )
        bursts.append(made | wrong)
    return bursts


@pytest.mark.parametrize(("data_bits", "pause"), [(32, 0.4), (64, 0.0), (128, 0.3)])
def test_bursts_of_any_kind(data_bits: int, pause: float) -> None:
    bus = Bus(data_bits=data_bits)
    bursts = drawn(random.Random(data_bits), bus, 30)
    beats, right, complaints, _ = played(bus, bursts, pause, seed=data_bits)
    assert beats == right
    assert not complaints
    assert {resp for _, resp, _, _ in right} == {OKAY, DECERR}


def test_bursts_in_order_come_at_nearly_two_bytes_a_cycle() -> None:
    bus = Bus(data_bits=64)
    bursts = [burst(bus, 128 * i, 16) for i in range(40)]
    beats, right, complaints, cycles = played(bus, bursts)
    assert beats == right
    assert not complaints
    assert 8 * len(beats) / cycles > 0.93 * 2


FAULTS = [
    ("beats.eq(axi.arlen)", "beats.eq(axi.arlen + 1)"),
    ("(axi.arlen << shift) | (words - 1)", "axi.arlen << shift"),
    ("(top >> size).any()", "0"),
    ("(axi.arburst != INCR)", "0"),
    ("axi.araddr[: self.bus.shift].any()", "0"),
    ("id.eq(axi.arid)", "id.eq(0)"),
    ("Mux(burst.wrong, DECERR, OKAY)", "OKAY"),
    ("Cat(part, self.read.payload))", "Cat(self.read.payload, part))"),
    ("axi.arready.eq(free & bursts.w_rdy)", "axi.arready.eq(bursts.w_rdy)"),
    ("((have != words - 1) | ~axi.rvalid)", "1"),
]


@pytest.mark.parametrize(("old", "new"), FAULTS)
def test_a_fault_is_seen(old: str, new: str) -> None:
    module = faulty("boards/gateware/axi", (old, new))
    bus = Bus(data_bits=64)
    sound = [burst(bus, 8 * i, 3, arid=i % 2) for i in range(6)]
    wrong = [burst(bus, BYTES, 2), burst(bus, 8, 2, arburst=2), burst(bus, 12, 2)]
    try:
        beats, right, complaints, _ = played(
            bus, [*sound, *wrong, *sound], 0.5, seed=1, axi=module.AxiMemory
        )
    except AssertionError:  # a beat that was offered has changed
        return
    assert beats != right or complaints


def test_requests_that_are_too_short_are_refused() -> None:
    with pytest.raises(ValueError, match="length_bits is 8: a burst of 256 beats has 1024 words"):
        AxiMemory(Bus(data_bits=64), SMALL, length_bits=8)

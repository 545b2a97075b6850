# amaranth: UnusedElaboratable=no
"""The read arbiter: addresses in turn, unchanged while they wait, beats to whoever asked."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rtl.dma.bus import Bus
from rtl.dma.share import ReadArbiter
from tests.damage import replaced
from tests.rtl.amaranth_ports import simulate

CYCLES = 400


def exercise(arbiter: Any, bus: Bus, seed: int, share: float) -> None:
    """Cores that ask with that probability, a memory that takes an address now and then."""
    draw = random.Random(seed)

    async def play(ports: Any) -> None:
        ctx, unit = ports.ctx, ports.component
        axi, waiting = unit.m_axi, [0] * bus.cores  # addresses of others since a core began to ask
        asked: dict[int, tuple[int, int]] = {}
        expected: list[tuple[int, int, int]] = []
        before = None
        for _ in range(CYCLES):
            for number, core in enumerate(unit.cores):
                if number not in asked and draw.random() < share:
                    asked[number] = draw.getrandbits(32), draw.randrange(16)
                    waiting[number] = 0
                ctx.set(core.arvalid, int(number in asked))
                ctx.set(core.araddr, asked.get(number, (0, 0))[0])
                ctx.set(core.arlen, asked.get(number, (0, 0))[1])
            ready, beat = draw.random() < 0.6, draw.random() < 0.5
            of, data = draw.randrange(bus.cores), draw.getrandbits(32)
            for name, value in {"arready": ready, "rvalid": beat, "rid": of, "rdata": data}.items():
                ctx.set(getattr(axi, name), int(value))
            assert ctx.get(axi.rready) == 1
            for number, core in enumerate(unit.cores):
                assert ctx.get(core.rvalid) == int(beat and of == number), f"a beat of core {of}"
                assert ctx.get(core.rdata) == data
            valid = ctx.get(axi.arvalid)
            shown = tuple(ctx.get(getattr(axi, name)) for name in ("arid", "araddr", "arlen"))
            assert before is None or (valid and shown == before), "withdrawn or changed"
            assert valid == bool(expected), "an address that nobody gave"
            if valid:
                assert shown == expected[0], "the address of another core"
                before = None if ready else shown
                if ready:
                    expected.pop()
            taken = [n for n, core in enumerate(unit.cores) if ctx.get(core.arready) and n in asked]
            assert len(taken) <= 1, f"cores {taken} at once"
            for number in taken:
                expected.append((number, *asked.pop(number)))
                for other in asked:
                    waiting[other] += 1
                    assert waiting[other] < bus.cores, "another core was twice before this one"
            await ctx.tick()

    simulate(arbiter, play)


@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("cores", [2, 3, 8])
def test_addresses_in_turn(cores: int, share: float) -> None:
    bus = Bus(data_bits=32, cores=cores)
    exercise(ReadArbiter(bus), bus, cores, share)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("latest.eq(chosen)", "latest.eq(0)", "another core was twice before this one"),
        ("axi.arid.eq(chosen)", "axi.arid.eq(0)", "the address of another core"),
        (
            "with m.If(free & (chosen == number))",
            "with m.If(chosen == number)",
            "withdrawn or changed",
        ),
        ("axi.rid == number", "axi.rid == 0", r"a beat of core \d"),
    ],
)
def test_a_fault_is_found(old: str, new: str, said: str) -> None:
    bus = Bus(data_bits=32, cores=3)
    with replaced("share", (old, new)) as faulty:
        arbiter = faulty.ReadArbiter(bus)
    with pytest.raises(AssertionError, match=f"^{said}"):
        exercise(arbiter, bus, 3, 1.0)

"""The registers of a stream: every payload once and in order, at the rate that is stated."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rtl.control.tile_queue import TileQueue
from rtl.interface.config import Config
from rtl.primitives.queues import OneDeepQueue
from tb.amaranth_ports import simulate

CONFIG = Config(lanes=4, tokens=24, hidden=16, ffn=16)
Queue = TileQueue | OneDeepQueue
MAKE: dict[str, Callable[[], Queue]] = {
    "tiles": lambda: TileQueue(CONFIG),
    "one": lambda: OneDeepQueue(8),
}


def played(unit: Queue, count: int, offered: float, taken: float) -> tuple[list[int], list[int]]:
    """Payloads in the order in which they came, and how many were inside in each cycle."""
    rng = np.random.default_rng(count)
    given, shown = (
        s.payload.operation if isinstance(unit, TileQueue) else s.payload for s in (unit.i, unit.o)
    )

    async def exercise(ports: Any) -> tuple[list[int], list[int]]:
        came: list[int] = []
        inside: list[int] = []
        sent, offer = 0, False
        for _ in range(20 * count):
            # A source that has offered a payload keeps it there.
            offer = sent < count and (offer or rng.random() < offered)
            ports.set("i__valid", int(offer))
            ports.ctx.set(given, sent & 255 if offer else 0xEE)
            before = ports.get("i__ready")
            ports.set("o__ready", int(rng.random() < taken))
            await ports.settle()
            assert ports.get("i__ready") == before, "the source hangs on the sink's answer"
            if ports.get("o__valid") and ports.get("o__ready"):
                came.append(ports.ctx.get(shown))
            if offer and before:
                sent, offer = sent + 1, False
            await ports.tick()
            inside.append(sent - len(came))
            if len(came) == count:
                break
        return came, inside

    return simulate(unit, exercise)


@pytest.mark.parametrize("taken", [0.2, 0.8, 1.0])
@pytest.mark.parametrize("offered", [0.2, 1.0])
@pytest.mark.parametrize("queue", MAKE)
def test_order(queue: str, offered: float, taken: float) -> None:
    unit = MAKE[queue]()
    came, inside = played(unit, 150, offered, taken)
    assert came == list(range(150))
    # It fills, and never takes more than it holds.
    assert max(inside) == (unit.capacity if taken < 1 else 1)


@pytest.mark.parametrize(("queue", "cycles"), [("tiles", 1), ("one", 2)])
def test_throughput(queue: str, cycles: int) -> None:
    """With a source and a sink that never pause: cycles a payload, and the latency."""
    count, unit = 40, MAKE[queue]()
    _, inside = played(unit, count, 1.0, 1.0)
    assert len(inside) == cycles * (count - 1) + 1 + unit.latency


@pytest.mark.parametrize("taken", [0.1, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_a_tile_is_normalised_in_the_cycle_after_its_row(seed: int, taken: float) -> None:
    """Against counts without a modulus: NORMs that were finished, and row tiles of the next."""
    unit, rng = TileQueue(CONFIG), np.random.default_rng(seed)
    tiles = [(index // 9, int(rng.integers(6))) for index in range(200)]

    async def exercise(ports: Any) -> None:
        ctx = ports.ctx
        sent = came = norms = rows = 0
        seen = set()
        before = (0, 0)  # progress of the cycle before
        while came < len(tiles):
            if rng.random() < 0.3 and norms < tiles[came][0]:
                norms, rows = (norms + 1, 0) if rows == 6 else (norms, rows + 1)
            ctx.set(unit.progress.norms, norms % 8)
            ctx.set(unit.progress.rows, rows)
            offers = sent < len(tiles)
            ctx.set(unit.i.valid, int(offers))
            if offers:
                ctx.set(unit.i.payload.norm_index, tiles[sent][0] % 8)
                ctx.set(unit.i.payload.row, tiles[sent][1])
            takes = False
            if ctx.get(unit.o.valid):
                index, row = tiles[came]
                normalised = before[0] == index or (before[0] == index - 1 and before[1] > row)
                assert ctx.get(unit.normalised) == normalised
                seen.add((normalised, before[0] == index))
                takes = normalised and rng.random() < taken
            ctx.set(unit.o.ready, int(takes))
            sent += int(offers and ctx.get(unit.i.ready))
            came += int(takes)
            before = norms, rows
            await ctx.tick()
        assert seen == {(False, False), (True, False), (True, True)}

    simulate(unit, exercise)

"""The border to the embedding memory, under resets at any moment and a memory without them."""

from collections import deque
from typing import Any

import numpy as np
import pytest

from rtl.control.rows import RowBorder
from rtl.interface.config import Config
from tb.amaranth_ports import simulate
from tests.tiers import quick

CONFIG = Config(lanes=4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", quick(range(4), 2))
@pytest.mark.parametrize("stalls", [0.0, 0.5])
def test_promises_outlive_resets(seed: int, stalls: float) -> None:
    """Every request that was offered is taken unchanged, every row comes whole, in a reset too.

    The unit behind withdraws its request when the reset begins, as a unit that is reset does.
    """
    unit, rng = RowBorder(CONFIG), np.random.default_rng([seed, int(10 * stalls)])

    async def exercise(ports: Any) -> tuple[int, int]:
        ctx = ports.ctx
        reset, wish = 1, 0
        offered: int | None = None  # what the memory has seen and not taken
        rows: deque[list[int]] = deque()  # words of the rows that were asked for
        kept = dropped = 0
        for _ in range(4000):
            ends = rng.random() < (0.02 if reset == 0 else 0.1)
            quiet = not rows and offered is None
            reset = 1 - reset if ends and (reset == 0 or quiet) else reset
            if not wish and rng.random() < 0.3:
                wish = int(rng.integers(1, 1 << 25))
            ready, want = (int(rng.random() >= stalls) for _ in range(2))
            offer = bool(rows) and rng.random() >= stalls
            for port, value in (
                (unit.reset, reset),
                (unit.request.valid, int(wish > 0)),
                (unit.request.payload, wish),
                (unit.asked.ready, ready),
                (unit.o.ready, want),
                (unit.i.valid, int(offer)),
            ):
                ctx.set(port, value)
            if offer:
                ctx.set(unit.i.payload.data, [rows[0][0] % 100] * CONFIG.lanes)
                ctx.set(unit.i.payload.last, int(len(rows[0]) == 1))
            shown = ctx.get(unit.asked.payload) if ctx.get(unit.asked.valid) else None
            if offered is not None:
                assert shown == offered, "an offered request was withdrawn or changed"
            elif reset:
                assert shown is None, "a request is made in reset"
            else:
                assert shown == (wish or None)
            assert ctx.get(unit.pending) == int(bool(rows) or shown is not None)
            passes = offer and ctx.get(unit.i.ready)
            assert bool(ctx.get(unit.i.ready)) == bool(rows and (reset or want))
            assert bool(ctx.get(unit.o.valid)) == bool(offer and not reset)
            if passes:
                kept, dropped = kept + 1 - reset, dropped + reset
                rows[0].pop()
                if not rows[0]:
                    rows.popleft()
            if shown is not None and ready:
                rows.append([shown] * int(rng.integers(1, 5)))
                offered = None
                wish = 0
            else:
                offered = shown
            await ctx.tick()
            if reset:
                wish = 0
        return kept, dropped

    kept, dropped = simulate(unit, exercise)
    assert kept > 300
    assert dropped > 10


def test_words_that_nobody_asked_for_are_not_taken() -> None:
    unit = RowBorder(CONFIG)

    async def exercise(ports: Any) -> None:
        ctx = ports.ctx
        ctx.set(unit.i.valid, 1)
        ctx.set(unit.i.payload.last, 1)
        ctx.set(unit.o.ready, 1)
        for cycle in range(20):
            ctx.set(unit.reset, cycle // 5 % 2)
            assert not ctx.get(unit.i.ready)
            assert not ctx.get(unit.o.valid)
            assert not ctx.get(unit.pending)
            await ctx.tick()

    simulate(unit, exercise)

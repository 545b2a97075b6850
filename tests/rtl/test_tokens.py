# amaranth: UnusedElaboratable=no
"""The token reader against a count in Python."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rtl.control.tokens import Tokens
from rtl.interface.config import Config
from rtl.interface.operation import Error
from tb.amaranth_ports import simulate

CONFIG = Config(lanes=4, tokens=13, hidden=8, ffn=8)
N = CONFIG.lanes
Attend = Sequence[int]
Said = dict[str, Any]


def ref_tokens(batch: Sequence[Attend]) -> tuple[Said, list[tuple[int, int, int, int]]]:
    """What must be said of it, and (place, id, attend, ends) of each token that is kept."""
    lengths: list[int] = []
    kept, row, number = [], 0, 0
    for sequence, attend in enumerate(batch):
        for place, bit in enumerate(attend):
            if place == CONFIG.tokens or row + place // N == CONFIG.row_tiles:
                return {"error": Error.LENGTH, "number": sequence}, kept
            ends = int(place == len(attend) - 1)
            kept.append((row * N + place, 100 + number, bit, ends))
            number += 1
        lengths.append(len(attend))
        row += -(-len(attend) // N)
        if not any(attend):
            return {"error": Error.NO_KEY, "number": sequence}, kept
    return {
        "error": Error.NONE,
        "sequences": len(batch),
        "row_tiles": row,
        "gathered": -(-len(batch) // N),
        "longest": max(lengths),
        "longest_number": lengths.index(max(lengths)),
        "lengths": lengths,
    }, kept


def rtl_tokens(
    batch: Sequence[Attend], idle: float
) -> tuple[Said, list[tuple[int, int, int, int]]]:
    """The same of the unit."""
    unit, rng = Tokens(CONFIG), np.random.default_rng(len(batch))
    words = [
        (bit, place == len(attend) - 1, sequence == len(batch) - 1)
        for sequence, attend in enumerate(batch)
        for place, bit in enumerate(attend)
    ]

    async def exercise(ports: Any) -> Any:
        ctx = ports.ctx
        handed, lengths = [], {}
        for number, (bit, ends, final) in enumerate(words):
            while rng.random() < idle:
                ctx.set(unit.i.valid, 0)
                assert not ctx.get(unit.o.en)
                assert not ctx.get(unit.length.en)
                await ctx.tick()
            last = ends and final
            ctx.set(unit.i.payload.data.id, 100 + number)
            ctx.set(unit.i.payload.data.attend, bit)
            # With `last` the bit is not needed.
            ctx.set(unit.i.payload.data.ends, int(ends and not (last and number % 2)))
            ctx.set(unit.i.payload.last, int(last))
            ctx.set(unit.i.valid, 1)
            assert ctx.get(unit.i.ready)
            assert not ctx.get(unit.batch.ready)
            if ctx.get(unit.o.en):
                token = ctx.get(unit.o.token)
                handed.append((ctx.get(unit.o.address), token.id, token.attend, token.ends))
            if ctx.get(unit.length.en):
                lengths[ctx.get(unit.length.address)] = ctx.get(unit.length.data)
            await ctx.tick()
        # Another batch is waiting: nothing of it is taken.
        for _ in range(3):
            assert not ctx.get(unit.i.ready)
            await ctx.tick()
        error = Error(ctx.get(unit.error))
        assert bool(ctx.get(unit.batch.ready)) == (error is Error.NONE)
        if error is not Error.NONE:
            return {"error": error, "number": ctx.get(unit.number)}, handed
        said = {name: ctx.get(getattr(unit.batch, name)) for name in BATCH}
        said |= {name: ctx.get(getattr(unit, name)) for name in ("longest", "longest_number")}
        found = [lengths[number] for number in range(len(lengths))]
        return {"error": error, "lengths": found} | said, handed

    return simulate(unit, exercise)


BATCH = ("sequences", "row_tiles", "gathered")


def sequence(length: int) -> list[int]:
    return [int(place % 3 == 1 or length == 1) for place in range(length)]


@pytest.mark.parametrize("idle", [0.0, 0.5])
@pytest.mark.parametrize(
    "lengths",
    [
        *([n] for n in (1, 3, 4, 5, 12, 13, 14, 40)),
        [4, 4, 4, 4],
        [1, 1, 1, 1],
        [5, 8],
        [8, 5],
        [1, 9, 2],
        [3, 3, 3, 3, 3],  # one row tile too many
        [12, 4, 1],
        [4, 14],
        [2, 2, 40],
    ],
    ids=str,
)
def test_lengths(lengths: list[int], idle: float) -> None:
    batch = [sequence(length) for length in lengths]
    assert rtl_tokens(batch, idle) == ref_tokens(batch)


@pytest.mark.parametrize(
    "batch",
    [
        *([attend] for attend in ([0], [0] * 9, [1], [0, 0, 1], [1, 0, 0], [0] * 14)),
        [[1, 0], [0, 0], [0]],
        [[0, 1], [1, 0, 0], [0, 0]],
        [[0, 0, 0, 0, 1], [0, 1]],
    ],
    ids=str,
)
def test_a_key_is_needed(batch: list[list[int]]) -> None:
    assert rtl_tokens(batch, 0.0) == ref_tokens(batch)

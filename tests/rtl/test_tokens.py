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


def ref_tokens(attend: Sequence[int]) -> tuple[Error, int, int]:
    """Error, length and row tiles."""
    kept = min(len(attend), CONFIG.tokens)
    error = Error.NONE
    if len(attend) > CONFIG.tokens:
        error = Error.LENGTH
    elif not any(attend):
        error = Error.NO_KEY
    return error, kept, -(-kept // CONFIG.lanes)


def rtl_tokens(
    attend: Sequence[int], idle: float
) -> tuple[tuple[Error, int, int], list[tuple[int, int, int]]]:
    """What the unit says, and (address, id, attend) of every token that it hands on."""
    unit, rng = Tokens(CONFIG), np.random.default_rng(len(attend))

    async def exercise(ports: Any) -> tuple[tuple[Error, int, int], list[tuple[int, int, int]]]:
        ctx = ports.ctx
        handed = []
        for place, bit in enumerate(attend):
            while rng.random() < idle:
                ctx.set(unit.i.valid, 0)
                assert not ctx.get(unit.o.en)
                await ctx.tick()
            ctx.set(unit.i.payload.data.id, 100 + place)
            ctx.set(unit.i.payload.data.attend, bit)
            ctx.set(unit.i.payload.last, place == len(attend) - 1)
            ctx.set(unit.i.valid, 1)
            assert ctx.get(unit.i.ready)
            assert not ctx.get(unit.sequence.ready)
            if ctx.get(unit.o.en):
                token = ctx.get(unit.o.token)
                handed.append((ctx.get(unit.o.address), token.id, token.attend))
            await ctx.tick()
        # Another sequence is waiting: nothing of it is taken.
        for _ in range(3):
            assert not ctx.get(unit.i.ready)
            await ctx.tick()
        error = Error(ctx.get(unit.error))
        assert bool(ctx.get(unit.sequence.ready)) == (error is Error.NONE)
        return (error, ctx.get(unit.sequence.tokens), ctx.get(unit.sequence.row_tiles)), handed

    return simulate(unit, exercise)


@pytest.mark.parametrize("idle", [0.0, 0.5])
@pytest.mark.parametrize("length", [1, 3, 4, 5, 12, 13, 14, 40])
def test_lengths(length: int, idle: float) -> None:
    attend = [int(place % 3 == 1 or length == 1) for place in range(length)]
    said, handed = rtl_tokens(attend, idle)
    assert said == ref_tokens(attend)
    kept = attend[: CONFIG.tokens]
    assert handed == [(place, 100 + place, bit) for place, bit in enumerate(kept)]


@pytest.mark.parametrize("attend", [[0], [0] * 9, [1], [0, 0, 1], [1, 0, 0], [0] * 14])
def test_a_key_is_needed(attend: list[int]) -> None:
    assert rtl_tokens(attend, 0.0)[0] == ref_tokens(attend)

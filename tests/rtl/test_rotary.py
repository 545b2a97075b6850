"""The unit of rotary positions against golden.rotary, in Amaranth's simulator."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from golden.model import ROTARY_ONE, Rotary
from golden.rotary import rotate
from rtl.compile.packing import rotary_planes
from rtl.control.payload import RotaryWriter
from rtl.datapath import rotary as unit

ENDS = np.array((-32768, -32767, -1, 0, 1, 32767), np.int16)
TURNS = np.array((-ROTARY_ONE, -ROTARY_ONE + 1, -1, 0, 1, ROTARY_ONE - 1, ROTARY_ONE), np.int16)


def loaded(
    tables: list[Rotary], lanes: int, row_tiles: int, row_words: int
) -> list[tuple[int, list[int]]]:
    """Addresses and words of the memory by the payload: of each channel its row tiles."""
    payload = np.frombuffer(rotary_planes(tables, lanes, row_tiles), np.uint8).astype(np.int32)
    low, high = payload.reshape(-1, 2, lanes).swapaxes(0, 1)
    words = (low + (high << 8)).astype(np.int16).tolist()
    return [
        (place // row_tiles * row_words + place % row_tiles, word)
        for place, word in enumerate(words)
    ]


def answers(design: unit.Rotary, words: list[tuple[int, list]], columns: list) -> list:
    """o of the columns (row tile, channel, u), one a cycle; None where there is none."""
    found: list = [None] * len(columns)

    async def bench(ctx: Any) -> None:
        ctx.set(design.write.en, 1)
        for address, values in words:
            ctx.set(design.write.address, address)
            ctx.set(design.write.data, values)
            await ctx.tick()
        ctx.set(design.write.en, 0)
        for cycle in range(len(columns) + design.ahead + design.latency):
            if cycle < len(columns) and columns[cycle] is not None:
                ctx.set(design.row, columns[cycle][0])
                ctx.set(design.channel, columns[cycle][1])
            now = cycle - design.ahead
            if 0 <= now < len(columns) and columns[now] is not None:
                ctx.set(design.u, columns[now][2])
            now -= design.latency
            if now >= 0 and columns[now] is not None:
                found[now] = [ctx.get(design.o[lane]) for lane in range(design.lanes)]
            await ctx.tick()

    simulator = Simulator(design)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return found


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize(
    ("lanes", "row_tiles", "sizes"), [(4, 3, [10]), (8, 1, [2, 6]), (2, 5, [6, 6])]
)
def test_columns_of_heads(lanes: int, row_tiles: int, sizes: list[int], corners: bool) -> None:
    """Heads of every table side by side, row tile by row tile, with pauses between pairs."""
    rng = np.random.default_rng([lanes, row_tiles, corners])
    tokens, pairs = lanes * row_tiles, [size // 2 for size in sizes]
    design = unit.Rotary(lanes, sum(pairs), row_tiles)

    def drawn(ends: np.ndarray, most: int, size: tuple[int, int]) -> np.ndarray:
        if corners:
            return rng.choice(ends, size)
        return rng.integers(-most, most, size, dtype=np.int16, endpoint=most == ROTARY_ONE)

    tables = [
        Rotary(*(drawn(TURNS, ROTARY_ONE, (tokens, count)) for _ in range(2))) for count in pairs
    ]
    words = loaded(tables, lanes, row_tiles, design.row_words)
    columns: list = []
    wanted: list = []
    first = 0
    for table, size in zip(tables, sizes):
        u = drawn(ENDS, 1 << 15, (tokens, 4 * size))
        turned = rotate(u, table, size)
        for row in range(row_tiles):
            tile = slice(row * lanes, (row + 1) * lanes)
            for c in range(4 * size):
                if c % 2 == 0 and rng.integers(3) == 0:
                    pause = int(rng.integers(1, 4))
                    columns += [None] * pause
                    wanted += [None] * pause
                columns.append((row, first + c % size, u[tile, c].tolist()))
                wanted.append(turned[tile, c].tolist())
        first += size
    found = answers(design, words, columns)
    assert found == wanted
    codes = {code for word in wanted if word for code in word}
    assert {-128, 127} <= codes


@pytest.mark.parametrize("row_tiles", [1, 2, 4])
def test_a_payload_for_fewer_and_for_more_tokens_than_the_model_has(row_tiles: int) -> None:
    """By places: cos of token t and pair i is 100 t + i, sin the negative of it."""
    values = 100 * np.arange(6)[:, None] + np.arange(5)
    tables = [Rotary(x.astype(np.int16), -x.astype(np.int16)) for x in np.split(values, [2], 1)]
    found = dict(loaded(tables, 4, row_tiles, 4))
    assert len(found) == 10 * row_tiles
    for channel in range(10):
        i, sign = channel // 2, (1, -1)[channel % 2]
        tokens = [x for row in range(row_tiles) for x in found[4 * channel + row]]
        wanted = [sign * (100 * t + i) if t < 6 else 0 for t in range(4 * row_tiles)]
        assert tokens == wanted


@pytest.mark.parametrize(
    ("pairs", "row_tiles", "room"),
    [(5, 3, (5, 4)), (1, 1, (5, 4)), (4, 2, (5, 3)), (3, 4, (3, 4)), (1, 1, (1, 1))],
)
def test_the_writer_of_a_payload(pairs: int, row_tiles: int, room: tuple[int, int]) -> None:
    """Twice, with pauses, in a memory with room for pairs and row tiles."""
    design = RotaryWriter(4, *room)
    rng, draw = np.random.default_rng([pairs, row_tiles]), Random(pairs)
    size = 4 * row_tiles, pairs
    tables = [
        Rotary(*rng.integers(-ROTARY_ONE, ROTARY_ONE + 1, (2, *size), dtype=np.int16))
        for _ in range(2)
    ]
    written: list[tuple[int, list[int]]] = []
    ends: list[int] = []

    async def bench(ctx: Any) -> None:
        ctx.set(design.pairs, pairs)
        ctx.set(design.row_tiles, row_tiles)
        for table in tables:
            payload = rotary_planes([table], 4, row_tiles)
            words = [
                int.from_bytes(payload[at : at + 4], "little") for at in range(0, len(payload), 4)
            ]
            for _ in range(8 * len(words) + 40):
                if not words and ctx.get(design.done):
                    break
                valid = bool(words) and draw.random() < 0.7
                ctx.set(design.i.valid, valid)
                ctx.set(design.i.payload, words[0] if valid else draw.getrandbits(32))
                if valid and ctx.get(design.i.ready):
                    words.pop(0)
                await ctx.tick()
                if ctx.get(design.o.en):
                    word = [ctx.get(design.o.data[lane]) for lane in range(4)]
                    written.append((ctx.get(design.o.address), word))
            ends.append(len(written))
            ctx.set(design.i.valid, 1)
            assert not ctx.get(design.i.ready)  # the cycle more

    simulator = Simulator(design)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    wanted = [loaded([table], 4, row_tiles, design.row_words) for table in tables]
    assert written == [*wanted[0], *wanted[1]]
    assert ends == [2 * pairs * row_tiles, 4 * pairs * row_tiles]

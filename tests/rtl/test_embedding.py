"""The embedding unit against a list of rows and addresses, with a slow memory."""

from collections import deque
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from rtl.control.embedding import MAX_PENDING, Embedding
from rtl.interface.config import Config
from rtl.interface.operation import Error
from tb.amaranth_ports import simulate
from tests.tiers import quick

CONFIG = Config(lanes=4, tokens=20, hidden=24, ffn=8)
TOKEN_ROWS, POSITION_ROWS = 50, 30


def within(lengths: list[int]) -> list[int]:
    """Place of each token in its sequence."""
    return [place for length in lengths for place in range(length)]


def ref_rows(ids: list[int], types: list[int], offset: int, lengths: list[int]) -> list[int]:
    """The rows that are asked for, in order."""
    found = []
    for place, token, kind in zip(within(lengths), ids, types):
        found += [token, TOKEN_ROWS + kind * POSITION_ROWS + offset + place]
    return found


def ref_writes(
    rows: list[int], words: int, wide: bool, lengths: list[int]
) -> list[tuple[int, tuple[int, int]]]:
    """Address in the weight half of every word, and which word of which row it is."""
    n, parts = CONFIG.lanes, 2 if wide else 1
    found = []
    for number, row in enumerate(rows):
        lane, kind = within(lengths)[number // 2] % n, number % 2
        for word in range(words):
            column, part = divmod(word, parts)
            # A column tile's operands: lane by lane token and position, each whole.
            address = (column * n + lane) * 2 * parts + kind * parts + part
            found.append((address, (row, word)))
    return found


def rtl_rows(
    ids: list[int],
    types: list[int],
    offset: int,
    channels: int,
    stalls: float,
    latency: int,
    width: int | None = None,
    wide: bool = False,
    lengths: list[int] | None = None,
) -> tuple[list[int], list[tuple[int, tuple[int, int]]], list[tuple[int, int]], Error, int]:
    """Rows asked for, writes, (writes so far, last) at each `done`, the error and its sequence.

    width
        Words of the rows that come; None: as many as the channels need.
    """
    unit, rng = Embedding(CONFIG), np.random.default_rng(len(ids))
    words = -(-channels // CONFIG.lanes) << wide if width is None else width
    lengths = [len(ids)] if lengths is None else lengths
    places = [
        (row * CONFIG.lanes + place, place == length - 1)
        for row, length in zip(
            accumulate((-(-x // CONFIG.lanes) for x in lengths), initial=0), lengths
        )
        for place in range(length)
    ]

    async def exercise(ports: Any) -> Any:
        ctx = ports.ctx
        for (place, ends), token, kind in zip(places, ids, types):
            ctx.set(unit.token.en, 1)
            ctx.set(unit.token.address, place)
            ctx.set(unit.token.token.ends, int(ends))
            ctx.set(unit.token.token.id, token)
            ctx.set(unit.token.token.type, kind)
            await ctx.tick()
        ctx.set(unit.token.en, 0)
        for number, length in enumerate(lengths):
            ctx.set(unit.length.en, 1)
            ctx.set(unit.length.address, number)
            ctx.set(unit.length.data, length)
            await ctx.tick()
        ctx.set(unit.length.en, 0)
        for name, value in (
            ("channels", channels),
            ("token_rows", TOKEN_ROWS),
            ("position_rows", POSITION_ROWS),
            ("offset", offset),
            ("types", 2 if any(types) else 1),
            ("wide", int(wide)),
        ):
            ctx.set(unit.rows.fields[name], value)
        ctx.set(unit.batch.sequences, len(lengths))
        ctx.set(unit.batch.row_tiles, sum(-(-length // CONFIG.lanes) for length in lengths))
        ctx.set(unit.batch.ready, 1)
        await ctx.tick().repeat(2)  # as long as the loader checks a descriptor
        ctx.set(unit.rows.active, 1)
        asked, writes, done = [], [], []
        queue: deque[tuple[int, int, int]] = deque()
        pending = 0
        for cycle in range(6000):
            ctx.set(unit.rows.fill, int(rng.random() >= stalls))
            ctx.set(unit.request.ready, int(rng.random() >= stalls))
            offer = bool(queue) and queue[0][0] <= cycle and rng.random() >= stalls
            if offer:
                _, row, word = queue[0]
                content = [(row * 7 + word * 3 + lane) % 251 - 125 for lane in range(CONFIG.lanes)]
                ctx.set(unit.i.payload.data, content)
                ctx.set(unit.i.payload.last, int(word == words - 1))
            ctx.set(unit.i.valid, int(offer))
            if ctx.get(unit.request.valid) and ctx.get(unit.request.ready):
                row = ctx.get(unit.request.payload)
                asked.append(row)
                queue.extend((cycle + latency, row, word) for word in range(words))
                pending += words
            if ctx.get(unit.write.en):
                _, row, word = queue.popleft()
                assert list(ctx.get(unit.write.data)) == content
                writes.append((ctx.get(unit.write.address), (row, word)))
                pending -= 1
            assert pending <= MAX_PENDING + 6 * 2
            if ctx.get(unit.rows.done):
                done.append((len(writes), ctx.get(unit.rows.last)))
            error = Error(ctx.get(unit.error))
            if error is not Error.NONE or (done and done[-1][1]):
                break
            await ctx.tick()
        return asked, writes, done, error, ctx.get(unit.number)

    found: Any = simulate(unit, exercise)
    return found


@pytest.mark.parametrize(("stalls", "latency"), quick([(0.4, 3), (0.0, 1), (0.0, 40)]))
@pytest.mark.parametrize("channels", [4, 9, 24])
@pytest.mark.parametrize("tokens", quick([11, 1, 4, 20], 2))
@pytest.mark.parametrize("wide", [False, True])
def test_rows(tokens: int, channels: int, stalls: float, latency: int, wide: bool) -> None:
    rng = np.random.default_rng(tokens)
    ids, types = rng.integers(0, TOKEN_ROWS, tokens).tolist(), rng.integers(0, 2, tokens).tolist()
    offset, words = 3, -(-channels // CONFIG.lanes) << wide
    asked, writes, done, error, _ = rtl_rows(
        ids, types, offset, channels, stalls, latency, wide=wide
    )
    assert error is Error.NONE
    assert asked == ref_rows(ids, types, offset, [tokens])
    assert writes == ref_writes(asked, words, wide, [tokens])
    tile = 2 * words * CONFIG.lanes
    ends = [*range(tile, len(writes), tile), len(writes)]
    assert done == [(end, int(end == len(writes))) for end in ends]


@pytest.mark.parametrize("lengths", [[1, 1], [4, 3, 8], [5, 1, 1, 2], [1, 1, 1, 1, 1]], ids=str)
@pytest.mark.parametrize("stalls", [0.0, 0.4])
def test_rows_of_a_batch(lengths: list[int], stalls: float) -> None:
    """Positions begin anew with each sequence, and each begins a row tile."""
    rng, tokens, channels = np.random.default_rng(sum(lengths)), sum(lengths), 9
    ids, types = rng.integers(0, TOKEN_ROWS, tokens).tolist(), rng.integers(0, 2, tokens).tolist()
    asked, writes, done, error, _ = rtl_rows(ids, types, 3, channels, stalls, 5, lengths=lengths)
    assert error is Error.NONE
    assert asked == ref_rows(ids, types, 3, lengths)
    words = -(-channels // CONFIG.lanes)
    assert writes == ref_writes(asked, words, False, lengths)
    ends, tokens = [], 0
    for length in lengths:
        for first in range(0, length, CONFIG.lanes):
            tokens += min(CONFIG.lanes, length - first)
            ends.append(2 * words * tokens)
    assert done == [(end, int(end == len(writes))) for end in ends]


@pytest.mark.parametrize(("place", "number"), [(0, 0), (3, 0), (4, 1), (5, 2), (6, 2)])
def test_the_sequence_of_an_unknown_id(place: int, number: int) -> None:
    ids = [TOKEN_ROWS if at == place else 1 for at in range(7)]
    *_, error, found = rtl_rows(ids, [0] * 7, 0, 8, 0.2, 5, lengths=[4, 1, 2])
    assert (error, found) == (Error.TOKEN, number)


@pytest.mark.parametrize(
    ("ids", "types", "asked"),
    [
        ([3, TOKEN_ROWS, 4], [0, 0, 0], 2),
        ([TOKEN_ROWS - 1, (1 << 24) - 1], [0, 0], 2),
        ([TOKEN_ROWS], [0], 0),
    ],
)
def test_an_id_beyond_the_table(ids: list[int], types: list[int], asked: int) -> None:
    """An error, and the row is not asked for."""
    found, _, _, error, _ = rtl_rows(ids, types, 0, 8, 0.0, 5)
    assert error is Error.TOKEN
    assert len(found) == asked


@pytest.mark.parametrize("channels", [4, 9, 24])
@pytest.mark.parametrize("more", [-1, 1, 3])
@pytest.mark.parametrize("wide", [False, True])
def test_rows_of_another_width(channels: int, more: int, wide: bool) -> None:
    """An error with the word in which it shows: the row's last, or the first that is none."""
    words = -(-channels // CONFIG.lanes) << wide
    if words + more < 1:
        return
    _, writes, _, error, _ = rtl_rows(
        [5, 6, 7], [0, 0, 0], 0, channels, 0.2, 3, words + more, wide=wide
    )
    assert error is Error.ROW
    assert len(writes) in (min(words, words + more), min(words, words + more) + 1)

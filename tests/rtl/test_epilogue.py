# amaranth: UnusedElaboratable=no
"""The epilogue against golden.requantize: every kind of tile, in random order, close together."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from golden.linear import WIDE_MAX, gated, halves
from golden.requantize import requantize, round_shift, saturate
from rtl.datapath.epilogue import Epilogue
from rtl.interface.config import Config
from rtl.interface.tile import Epilogue as Kind
from tb.amaranth_ports import simulate
from tests.tiers import quick

CONFIG = Config(lanes=4, tokens=64, hidden=64, ffn=64, labels=64)
N = CONFIG.lanes
X_WORDS = 64
Event = tuple[Any, ...]


def random_work(count: int, seed: int, width: int) -> dict[str, Any]:
    """Tiles with the accumulators of their columns, and everything that they are finished with."""
    rng = np.random.default_rng(seed)
    tiles = []
    for _ in range(count):
        kind = Kind(int(rng.integers(6)))
        wide = rng.integers(-(1 << 20), 1 << 20, (width, N))
        extreme = rng.choice([-(1 << 20), (1 << 20) - 1, 0, 3], (width, N))
        address = int(rng.integers(X_WORDS - width))
        columns = int(rng.integers(1, width + 1))
        ways = {"skipped": int(rng.integers((columns + N - 1) // N)), "way": 0}
        if kind in (Kind.INT8, Kind.CONTEXT):
            ways["way"] = int(rng.integers(width // N))
        # No tile reads in a later column what it has written in an earlier one.
        reads = [read for read in range(X_WORDS - width) if not 0 < address - read < width]
        gate = int(rng.integers(1, 32)) if kind is Kind.INT8 and rng.random() < 0.5 else 0
        tiles.append(
            {
                "epilogue": kind,
                "table": int(kind is Kind.INT8 and rng.random() < 0.5),
                "transposed": int(kind is Kind.INT8 and rng.random() < 0.5),
                "weight_buffer": int(rng.integers(2)),
                "softmax_buffer": int(rng.integers(2)),
                "release": int(rng.integers(2)),
                "score_first": int(rng.integers(2)),
                "score_last": int(rng.integers(2)),
                "address": address,
                "columns": columns,
                **(ways if width > N else {}),
                "read": int(rng.choice(reads)),
                "gather": int(kind in (Kind.RESIDUAL, Kind.LOGITS) and rng.random() < 0.5),
                "lane": int(rng.integers(N)),
                "row": int(rng.integers(CONFIG.row_tiles * N // width)),
                "shift": int(rng.integers(0, 16)),
                "gate": gate if rng.random() < 0.5 else min(gate, 12),
                "row_tile_done": int(rng.integers(2)),
                "table_last": int(rng.integers(2)),
                "acc": np.where(rng.random(wide.shape) < 0.2, extreme, wide)
                >> int(rng.integers(12)),
                "wait": int(rng.choice([0, 0, 1, 7, 30])),
            }
        )
    return {
        "tiles": tiles,
        "bias": rng.integers(-(1 << 19), 1 << 19, (2, width)),
        "m": rng.integers(1 << 15, 1 << 16, (2, width)),
        "s": rng.integers(20, 32, (2, width)),
        "row_m": rng.integers(1 << 15, 1 << 16, (2, N)),
        "row_s": rng.integers(20, 32, (2, N)),
        "score": (int(rng.integers(1 << 15, 1 << 16)), int(rng.integers(16, 24))),
        "table": rng.integers(-128, 128, 256),
        "table_low": rng.integers(-128, 128, 256),
        "x": rng.integers(-(1 << 15), 1 << 15, (X_WORDS, N)),
        "words": rng.integers(-(1 << 15), WIDE_MAX + 1, (width // N, X_WORDS, N)),
    }


def ref_epilogue(work: dict[str, Any], gates: bool, wide: bool) -> list[Event]:
    """(port, address, word) of every write, and the pulses of every tile, by port in order.

    gates, wide
        There are gates; the table has low halves.
    """
    found: list[Event] = []
    x = work["x"].copy()
    for tile in work["tiles"]:
        half, kind = tile["weight_buffer"], tile["epilogue"]
        first, way = N * tile.get("skipped", 0), 1 << tile.get("way", 0)
        for n in range(first, tile["columns"]):
            acc, address = tile["acc"][n], tile["address"] + n
            lanes = slice(N) if tile["transposed"] else n
            bias, m, s = (work[name][half][lanes] for name in ("bias", "m", "s"))
            if kind is Kind.INT8 and gates and tile["gate"]:
                words = work["words"][tile.get("way", 0), address].astype(np.int16)
                up = requantize(acc + bias, m, s, 16)
                words = words if wide else halves(words)[0]
                product = gated(words, up, tile["gate"])
                high, low = halves(product) if wide else (product, 0 * product)
                found.append(("bank", way, address, high.tolist()))
                found.append(("low", address, low.tolist()))
            elif kind is Kind.INT8:
                code = requantize(acc + bias, m, s, 8).astype(int)
                word = work["table"][code & 255] if tile["table"] else code
                found.append(("bank", way, address, word.tolist()))
                low = work["table_low"][code & 255] if tile["table"] and wide else 0 * code
                found.append(("low", address, low.tolist()))
            elif kind is Kind.CONTEXT:
                row = (work[name][tile["softmax_buffer"]] for name in ("row_m", "row_s"))
                word = requantize(acc, *row, 8).astype(int)
                found.append(("bank", way, address, word.tolist()))
                found.append(("low", address, [0] * N))
            elif kind is Kind.SCORE:
                edge = (
                    tile["score_first"] and n == first,
                    tile["score_last"] and n == tile["columns"] - 1,
                )
                word = requantize(acc, *work["score"], 16).astype(int).tolist()
                place = tile["row"] * len(tile["acc"]) + n // N * N + address % N
                found.append(
                    ("score", address, place, word, tile["softmax_buffer"], *map(int, edge))
                )
            elif kind is Kind.RESIDUAL:
                z = round_shift(x[tile["read"] + n].astype(np.int64), tile["shift"])
                z = saturate(z + requantize(acc + bias, m, s, 16).astype(int), 16)
                kept = tile["lane"] if tile["gather"] else slice(None)
                x[address][kept] = z[0] if tile["gather"] else z
                found.append(("x", address, x[address].tolist()))
            elif kind is Kind.EMBEDDING:
                x[address] = saturate(acc.astype(np.int64), 16)
                found.append(("x", address, x[address].tolist()))
            else:
                logits = acc + bias
                gathered = {tile["lane"]: int(logits[0])}
                found.append(
                    ("logit", address, gathered if tile["gather"] else dict(enumerate(logits)))
                )
        found.append(("done", tile["row_tile_done"], tile["table_last"]))
        if tile["release"]:
            found.append(("release", half))
    return found


def rtl_epilogue(
    work: dict[str, Any], width: int, precise: bool, gates: bool, wide: bool
) -> tuple[list[Event], int]:
    """The same, and by how many cycles `done` misses the stated latency."""
    config = replace(CONFIG, columns=width, precise=precise, gated=gates)
    unit = Epilogue(config, ahead=5)
    array_latency = 7  # from a tile's last address to column 0: memory 2, operand 1, array 4
    ahead: list[tuple[int, int]] = []
    starts: list[int] = []

    async def exercise(ports: Any) -> tuple[list[Event], int]:
        ctx, found, took = ports.ctx, [], set()
        for half in range(2):
            for plane in range(7):
                name, shift = (("bias", plane), ("m", plane - 4), ("s", 0))[
                    0 if plane < 4 else 1 if plane < 6 else 2
                ]
                for first in range(0, width, N):
                    word = sum(
                        (int(v) >> 8 * shift & 255) << 8 * lane
                        for lane, v in enumerate(work[name][half][first : first + N])
                    )
                    ctx.set(unit.parameter.en, 1)
                    ctx.set(unit.parameter.buffer, half)
                    ctx.set(unit.parameter.plane, plane)
                    if width > N:
                        ctx.set(unit.parameter.word, first // N)
                    ctx.set(unit.parameter.data, word)
                    await ctx.tick()
        ctx.set(unit.parameter.en, 0)
        # A table with low halves, and where it is not to be wide one without them behind it.
        entries = [*enumerate(work["table"])]
        if precise:
            both = [*enumerate([*work["table"], *work["table_low"]])]
            entries = both if wide else both + entries
        for address, entry in entries:
            ctx.set(unit.table.en, 1)
            ctx.set(unit.table.address, address)
            ctx.set(unit.table.data, int(entry) & 255)
            await ctx.tick()
        ctx.set(unit.table.en, 0)
        ctx.set(unit.score_multiplier.m, work["score"][0])
        ctx.set(unit.score_multiplier.s, work["score"][1])

        x = {address: word.tolist() for address, word in enumerate(work["x"])}
        reads: list[list[int]] = [[0] * N] * 2
        asked: list[tuple[int, int] | None] = [None] * 2
        begin, columns = 0, {}
        waiting = list(work["tiles"])
        for cycle in range(100_000):
            start = bool(waiting) and cycle >= begin
            ctx.set(unit.tile.start, int(start))
            if start:
                tile = waiting.pop(0)
                for name, value in tile.items():
                    if name not in ("acc", "wait", "gate"):
                        ctx.set(unit.tile.tag[name], value)
                if gates:
                    ctx.set(unit.tile.tag.gated, int(tile["gate"] > 0))
                    ctx.set(unit.tile.tag.shift, tile["gate"] or tile["shift"])
                drain = -(-tile["columns"] // N) * N
                for place, column in enumerate(tile["acc"][:drain]):
                    columns[cycle + array_latency + place] = column.tolist()
                # A residual must not read what the one before it has not written.
                begin = (
                    cycle
                    + drain
                    + (tile["wait"] or 0)
                    + 2 * unit.latency * (tile["epilogue"] in (Kind.RESIDUAL, Kind.EMBEDDING))
                )
                starts.append(cycle + drain - 1)
            ctx.set(unit.column, columns.pop(cycle, [-5] * N))
            half = ctx.get(unit.row.buffer)
            ctx.set(unit.row.m, work["row_m"][half].tolist())
            ctx.set(unit.row.s, work["row_s"][half].tolist())
            ctx.set(unit.x.read_data, reads[0])
            reads = [reads[1], x[ctx.get(unit.x.read_address) % X_WORDS]]

            if gates:
                # Of a word that nobody asked for nothing counts.
                place, asked = asked[0], [asked[1], None]
                if ctx.get(unit.gate.en):
                    way = ctx.get(unit.gate.way) if width > N else 0
                    asked[1] = way, ctx.get(unit.gate.address)
                word = [0x5A5A] * N if place is None else work["words"][place].tolist()
                for lane, value in enumerate(word):
                    high, low = halves(np.int16(value))
                    stored = {"high": int(high), "low": int(low)} if precise else int(high)
                    ctx.set(unit.gate.data[lane], stored)

            if ctx.get(unit.bank.en):
                address = ctx.get(unit.bank.address)
                stored = [ctx.get(unit.bank.data[lane]) for lane in range(N)]
                if precise:
                    found.append(("low", address, [halves.low for halves in stored]))
                    stored = [halves.high for halves in stored]
                found.append(("bank", ctx.get(unit.bank.en), address, stored))
            if ctx.get(unit.score.en):
                buffer = ctx.get(unit.score.buffer)
                edge = ctx.get(unit.score.first), ctx.get(unit.score.last)
                word = list(ctx.get(unit.score.data))
                place = ctx.get(unit.score.place)
                found.append(("score", ctx.get(unit.score.key), place, word, buffer, *edge))
            if ctx.get(unit.x.write_en):
                address, word = ctx.get(unit.x.write_address), list(ctx.get(unit.x.write_data))
                lanes = ctx.get(unit.x.write_lanes)
                x[address] = [
                    new if lanes >> lane & 1 else old
                    for lane, (new, old) in enumerate(zip(word, x[address]))
                ]
                found.append(("x", address, x[address]))
            if ctx.get(unit.logit.en):
                lanes, word = ctx.get(unit.logit.lanes), ctx.get(unit.logit.value)
                kept = {lane: value for lane, value in enumerate(word) if lanes >> lane & 1}
                found.append(("logit", ctx.get(unit.logit.index), kept))
            if ctx.get(unit.parameter_release.en):
                found.append(("release", ctx.get(unit.parameter_release.buffer)))
            ahead.append((ctx.get(unit.x.busy), ctx.get(unit.x.read_en), ctx.get(unit.x.write_en)))
            if ctx.get(unit.done):
                found.append(("done", ctx.get(unit.row_tile_done), ctx.get(unit.table_done)))
                took.add(cycle - starts[sum(e[0] == "done" for e in found) - 1])
                if not waiting and sum(e[0] == "done" for e in found) == len(work["tiles"]):
                    break
            else:
                assert not ctx.get(unit.row_tile_done)
                assert not ctx.get(unit.table_done)
            await ctx.tick()
        assert len(took) == 1
        # x_busy says what x_read_en is and what x_write_en will be.
        busy, reads, writes = zip(*ahead)
        assert any(reads)
        assert any(writes)
        assert [r | w for r, w in zip(reads, writes[5:])] == list(busy[:-5])
        return found, took.pop() - unit.latency

    result: tuple[list[Event], int] = simulate(unit, exercise)
    return result


@pytest.mark.parametrize(
    ("seed", "width", "precise", "gates", "wide"),
    quick(
        [
            (0, N, False, False, False),
            (5, 4 * N, False, True, False),
            (8, 2 * N, True, True, True),
            *((seed, N, False, False, False) for seed in range(1, 4)),
            (4, 2 * N, False, False, False),
            (7, N, True, False, True),
            (9, N, False, True, False),
            (10, N, True, True, True),
            (11, 2 * N, True, True, False),
        ],
    ),
)
def test_tiles(seed: int, width: int, precise: bool, gates: bool, wide: bool) -> None:
    """Writes of each port in order, addresses, pulses, and the latency that the table states."""
    work = random_work(60, seed, width)
    expected = ref_epilogue(work, gates, wide)
    actual, late = rtl_epilogue(work, width, precise, gates, wide)
    for port in ("bank", *(["low"] if precise else []), "score", "x", "logit", "done", "release"):
        wanted = [event for event in expected if event[0] == port]
        shown = [event for event in actual if event[0] == port]
        assert wanted
        for place, (one, other) in enumerate(zip(wanted, shown)):
            assert one == other, f"{port} {place}"
        assert len(wanted) == len(shown)
    assert late == 0

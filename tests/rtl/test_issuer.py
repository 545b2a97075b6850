# amaranth: UnusedElaboratable=no
"""The issuer's rules, checked on random tiles with operands that come at random times."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rtl.control.issuer import Issuer
from rtl.interface.config import Config
from rtl.interface.tile import Operand
from rtl.interface.trace import Stall
from tb.amaranth_ports import simulate
from tests.tiers import quick

CONFIG = Config(lanes=4, tokens=24, hidden=16, ffn=16)
N = CONFIG.lanes
SOURCES = [
    (Operand.X8, Operand.WEIGHT),
    (Operand.WEIGHT, Operand.X8),
    (Operand.BANK, Operand.BANK),
    (Operand.P, Operand.BANK),
    (Operand.ONE_HOT, Operand.WEIGHT),
]


def random_tiles(count: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    tiles: list[dict[str, Any]] = []
    norm_index, half = 0, 0
    for number in range(count):
        a, b = SOURCES[rng.integers(len(SOURCES))]
        release = bool(rng.random() < 0.4) and Operand.WEIGHT in (a, b)
        norm_index += int(rng.random() < 0.15)
        tiles.append(
            {
                "a": a,
                "weights": Operand.WEIGHT in (a, b),
                "norm": Operand.X8 in (a, b),
                "b": b,
                "a_address": int(rng.integers(60)),
                "b_address": int(rng.integers(60)),
                "length": int(rng.choice([1, 2, 3, 4, 5, 9, 16])),
                "release": release,
                "norm_index": norm_index,
                "row": int(rng.integers(6)),
                "softmax": bool(a is Operand.P and rng.random() < 0.7),
                "operation": number % 256,
                "half": half,
            }
        )
        half ^= release
    return tiles


def in_pairs(tiles: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Some come twice, of low halves and of high ones; weights are released by the second."""
    rng = np.random.default_rng([seed, 1])
    found = []
    for tile in tiles:
        wide = tile["weights"] and not tile["softmax"] and rng.random() < 0.4
        if wide:
            found.append(tile | {"release": False, "low": 1, "joined": 0})
        found.append(tile | {"low": 0, "joined": int(wide)})
    return found


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("seed", quick(range(5)))
def test_rules(seed: int, eager: bool, precise: bool) -> None:
    """Every tile is read whole and in order, none before its operands are there, none late.

    With `eager` everything is there at once, and each tile must start in the first cycle that the
    array allows.
    """
    tiles = random_tiles(150, seed)
    if precise:
        tiles = in_pairs(tiles, seed)
    unit, rng = Issuer(replace(CONFIG, precise=precise)), np.random.default_rng(seed)

    async def exercise(ports: Any) -> None:
        ctx = ports.ctx
        place, read, ends, in_flight = -1, 0, [], []
        ready = [0, 0]
        norms, rows, softmax = 0, 0, 0
        pulse = 0
        releases = []
        offered = 0
        starts = []
        earliest = finished = 0
        for cycle in range(20_000):
            tile = tiles[offered] if offered < len(tiles) else None
            # What the surroundings offer in this cycle.
            if eager:
                ready = [1, 1]
                if tile is not None:
                    norms = tile["norm_index"]
                pulse = int(tile is not None and tile["softmax"] and softmax == 0)
            else:
                for half in range(2):
                    ready[half] |= int(rng.random() < 0.1)
                pulse = int(rng.random() < 0.1 and softmax < 2)
                if rng.random() < 0.2:
                    rows += 1
                    if rows == 6:
                        norms, rows = norms + 1, 0
                        if tile is not None:
                            norms = min(norms, tile["norm_index"])
            done = int(bool(in_flight) and cycle >= in_flight[0])
            if done:
                in_flight.pop(0)
            ctx.set(unit.weights_ready, ready[0] | ready[1] << 1)
            ctx.set(unit.softmax_finished, pulse)
            ctx.set(unit.done, done)
            ctx.set(unit.i.valid, int(tile is not None))
            if tile is not None:
                behind = tile["norm_index"] - norms
                normalised = behind <= 0 or (behind == 1 and rows > tile["row"])
                ctx.set(unit.normalised, int(normalised))
                for name, value in tile.items():
                    if name == "half":
                        ctx.set(unit.i.payload.tag.weight_buffer, value)
                    else:
                        ctx.set(unit.i.payload[name], value)

            # What the unit reads in this cycle.
            if ctx.get(unit.o.valid):
                now = tiles[place]
                assert ctx.get(unit.o.index) == read
                assert ctx.get(unit.o.first) == (read == 0)
                end = read == now["length"] - 1
                last = end and not now.get("low")
                assert ctx.get(unit.o.last) == ctx.get(unit.tile.start) == last
                if precise:
                    assert ctx.get(unit.o.low) == now["low"]
                    assert ctx.get(unit.o.joined) == now["joined"]
                finished = cycle if end else finished
                assert Operand(ctx.get(unit.o.a)) is now["a"]
                assert Operand(ctx.get(unit.o.b)) is now["b"]
                assert ctx.get(unit.o.a_address) == now["a_address"] + read
                assert ctx.get(unit.o.b_address) == now["b_address"] + read
                assert ctx.get(unit.activity.operation) == now["operation"]
                assert ctx.get(unit.release.en) == (last and now["release"])
                read += 1
                if last:
                    assert not ends or cycle - ends[-1] >= N
                    ends.append(cycle)
                    in_flight.append(cycle + 20)
                    if now["release"]:
                        assert ctx.get(unit.release.buffer) == now["half"]
                        releases.append(now["half"])
                        ready[now["half"]] = 0
            else:
                assert not ctx.get(unit.release.en)
                assert place < 0 or read == tiles[place]["length"]
            of_pair = place >= 0 and bool(tiles[place].get("low"))
            busy = bool(in_flight) or of_pair or (place >= 0 and read < tiles[place]["length"])
            if ctx.get(unit.quiet):
                assert not busy
                assert tile is None

            stall = Stall(ctx.get(unit.activity.stall))
            if ctx.get(unit.i.ready) and tile is not None:
                assert stall is Stall.NONE
                weights = Operand.WEIGHT in (tile["a"], tile["b"])
                assert not weights or ctx.get(unit.weights_ready) >> tile["half"] & 1
                if Operand.X8 in (tile["a"], tile["b"]):
                    assert normalised
                if tile["softmax"]:
                    assert softmax > 0
                    softmax -= 1
                starts.append(cycle)
                if eager and ends:
                    drained = 0 if tile.get("low") else ends[-1] + N - tile["length"]
                    earliest = max(finished, drained)
                    # A softmax pulse counts from the cycle after it.
                    assert cycle <= earliest + 2 * int(tile["softmax"])
                place, read, offered = offered, 0, offered + 1
            elif stall is Stall.IDLE:
                assert tile is None
            softmax += pulse
            whole = offered == len(tiles) and read == tiles[-1]["length"]
            if whole and not in_flight and cycle > ends[-1] + 30:
                break
            await ctx.tick()
        assert len(starts) == len(tiles)
        assert len(ends) == sum(not tile.get("low") for tile in tiles)
        assert precise == (len(ends) < len(tiles))
        assert len(releases) == sum(tile["release"] for tile in tiles)
        assert ctx.get(unit.quiet)

    simulate(unit, exercise)

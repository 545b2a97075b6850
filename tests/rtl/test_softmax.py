# amaranth: UnusedElaboratable=no
"""Softmax and RowScale against golden.softmax, and its cycles against the formula it states."""

from dataclasses import dataclass

import numpy as np
import pytest
from amaranth.sim import SimulatorContext

from golden.softmax import row_scale, softmax
from rtl.softmax import RowScale, Softmax
from tb.pipelined import from_port, run_pipelined, simulator, to_port


@dataclass
class Tile:
    """Scores of one tile of queries and the multiplier of its context."""

    scores: np.ndarray  # int16 [lanes, keys]
    m: int
    s: int


@dataclass
class Result:
    """What a pass left: read back from its memory and registers, and seen on the trace."""

    p: np.ndarray  # [lanes, keys]
    row_max: np.ndarray
    row_sum: np.ndarray
    row_m: np.ndarray
    row_s: np.ndarray


def ref_softmax(tile: Tile, attend: np.ndarray) -> Result:
    p, row_max, row_sum = softmax(tile.scores, attend)
    return Result(p, row_max, row_sum, *row_scale(row_sum, tile.m, tile.s))


class Run:
    """Tiles through the unit, alternating between the buffers; the cycles of all that happened."""

    def __init__(
        self, tiles: list[Tile], attend: np.ndarray, *, idle: float, tokens: int, seed: int
    ) -> None:
        self.tiles, self.attend = tiles, attend
        self.lanes, self.keys = tiles[0].scores.shape
        self.unit = Softmax(self.lanes, tokens)
        self.idle, self.rng = idle, np.random.default_rng(seed)
        self.last_cycle: list[int] = []
        self.finished_cycle: list[int] = []
        self.results: list[Result] = []
        self.rows: list[tuple[np.ndarray, np.ndarray]] = []
        self.p_trace: list[list[np.ndarray]] = [[] for _ in tiles]
        self.p_keys: list[list[int]] = [[] for _ in tiles]
        self.busy_after: list[int] = []
        sim = simulator(self.unit)
        self.done = 0
        self.cycle = 0
        sim.add_testbench(self.watch, background=True)  # first: the others read its cycle
        sim.add_testbench(self.drive)
        sim.add_testbench(self.read)
        sim.run()

    async def drive(self, ctx: SimulatorContext) -> None:
        unit = self.unit
        for key in range(self.keys):
            ctx.set(unit.mask_en, 1)
            ctx.set(unit.mask_address, key)
            ctx.set(unit.mask_attend, bool(self.attend[key]))
            await ctx.tick()
        ctx.set(unit.mask_en, 0)
        for index, tile in enumerate(self.tiles):
            while self.done < index - 1:  # the buffer is free, and at most one pass waits
                await ctx.tick()
            for key in range(self.keys):
                while self.rng.random() < self.idle:
                    await ctx.tick()
                last = key == self.keys - 1
                ctx.set(unit.score_en, 1)
                ctx.set(unit.score_buffer, index % 2)
                ctx.set(unit.score_first, key == 0)
                ctx.set(unit.score_last, last)
                ctx.set(unit.score_key, key)
                ctx.set(unit.score_data, to_port(tile.scores[:, key]))
                ctx.set(unit.context_m, tile.m if last else 0)
                ctx.set(unit.context_s, tile.s if last else 0)
                if last:
                    self.last_cycle.append(self.cycle)
                await ctx.tick()
                ctx.set(unit.score_en, 0)

    async def watch(self, ctx: SimulatorContext) -> None:
        """Count cycles and keep the traces and the finished pulses."""
        unit = self.unit
        ports = (unit.finished, unit.trace_p_en, unit.trace_p_key, unit.trace_p,
                 unit.trace_row_en, unit.trace_max, unit.trace_sum)  # fmt: skip
        passes = 0
        while True:
            *_, fin, p_en, p_key, p, row_en, top, total = await ctx.tick().sample(*ports)
            if fin:
                self.finished_cycle.append(self.cycle)
            if p_en:
                self.p_keys[passes].append(p_key)
                self.p_trace[passes].append(np.array(from_port(p)))
            if row_en:
                self.rows.append((np.array(from_port(top)), np.array(from_port(total))))
                passes += 1
            self.cycle += 1

    async def read(self, ctx: SimulatorContext) -> None:
        """Read p from the cycle of `finished` on, a key a cycle, and the row scales in it."""
        unit = self.unit
        for index in range(len(self.tiles)):
            await ctx.delay(1e-10)
            while not ctx.get(unit.finished):
                await ctx.tick()
                await ctx.delay(1e-10)
            words = []
            ctx.set(unit.row_buffer, index % 2)
            row_m = np.array(from_port(ctx.get(unit.row_m)))
            row_s = np.array(from_port(ctx.get(unit.row_s)))
            self.done += 1
            ctx.set(unit.p_buffer, index % 2)
            for cycle in range(self.keys + 2):
                ctx.set(unit.p_address, min(cycle, self.keys - 1))
                *_, word = await ctx.tick().sample(unit.p_data)
                if cycle >= 2:
                    words.append(from_port(word))
            row_max, row_sum = self.rows[index]
            self.results.append(Result(np.array(words).T, row_max, row_sum, row_m, row_s))
        await ctx.tick()
        self.busy_after.append(ctx.get(unit.busy))


def tiles(lanes: int, keys: int, count: int, spread: int, seed: int) -> list[Tile]:
    rng = np.random.default_rng(seed)
    return [
        Tile(
            np.clip(rng.normal(0, spread, (lanes, keys)), -32768, 32767).astype(np.int16),
            int(rng.integers(1 << 15, 1 << 16)),
            int(rng.integers(14, 24)),
        )
        for _ in range(count)
    ]


def attend_with_holes(keys: int, seed: int) -> np.ndarray:
    attend = np.random.default_rng(seed).random(keys) < 0.7
    attend[keys // 2] = True
    return attend


def check(run: Run) -> None:
    assert len(run.results) == len(run.tiles)
    for index, (tile, result) in enumerate(zip(run.tiles, run.results)):
        expected = ref_softmax(tile, run.attend)
        for name in ("p", "row_max", "row_sum", "row_m", "row_s"):
            np.testing.assert_array_equal(
                getattr(result, name), getattr(expected, name), f"tile {index}: {name}"
            )
        np.testing.assert_array_equal(np.array(run.p_trace[index]).T, expected.p)
        assert run.p_keys[index] == list(range(run.keys))
    assert run.busy_after == [0]


CASES = [(1, 1, 1), (3, 5, 8), (4, 4, 16), (4, 13, 13), (8, 40, 64), (16, 20, 100)]


@pytest.mark.parametrize("idle", [0.0, 0.4])
@pytest.mark.parametrize(("lanes", "keys", "tokens"), CASES)
def test_equals_golden(lanes: int, keys: int, tokens: int, idle: float) -> None:
    """Four tiles through both buffers, a mask with holes, all spreads of the scores."""
    for spread, seed in ((300, 1), (3000, 2)):
        run = Run(
            tiles(lanes, keys, 4, spread, seed),
            attend_with_holes(keys, seed),
            idle=idle,
            tokens=tokens,
            seed=seed,
        )
        check(run)


def test_corner_scores() -> None:
    """Extreme scores, equal scores, and a masked key above the maximum and below -32768 + p."""
    low, high = -32768, 32767
    scores = np.array([
        [low, low, low, low, low, low],
        [high, low, 0, high, -1, 1],
        [high, 5, 5, 4, 5 - 2047, 5 - 2048],
        [high, 0, -2048 + 255, -2048, -2303, -2304],
    ]).astype(np.int16)  # fmt: skip
    attend = np.array([False, True, True, True, True, True])
    every = np.arange(0, -2600, -1).astype(np.int16).reshape(1, -1)
    check(Run([Tile(scores, 1 << 15, 1), Tile(scores, 0xFFFF, 31)], attend,
              idle=0.0, tokens=6, seed=0))  # fmt: skip
    # Every distance from 0 to 2599 in one row: the whole table at every shift.
    check(Run([Tile(every, 40000, 20)], np.ones(2600, bool), idle=0.0, tokens=2600, seed=0))


@pytest.mark.parametrize(("lanes", "keys"), [(4, 4), (4, 30), (8, 12)])
def test_cycles(lanes: int, keys: int) -> None:
    """finished = max(t + 3, f) + keys + lanes + 21, alone and behind another pass."""
    run = Run(tiles(lanes, keys, 4, 500, 3), np.ones(keys, bool), idle=0.0, tokens=32, seed=1)
    free = 0
    for last, finished in zip(run.last_cycle, run.finished_cycle):
        free = max(last + 3, free) + keys + lanes + 21
        assert finished == free
        assert run.unit.pass_cycles(keys) == keys + lanes + 21
    assert run.finished_cycle[0] == run.last_cycle[0] + run.unit.cycles(keys)
    assert run.last_cycle[1] + run.unit.cycles(keys) < run.finished_cycle[1], "no pass waited"


def test_row_scale_equals_golden() -> None:
    """All magnitudes of the sum; products below and above 2^31 and just below a power of two."""
    rng = np.random.default_rng(6)
    m, s = 0xFFFF, 20
    for m in (1 << 15, 46341, 0xFFFF):
        total = rng.integers(1, 1 << rng.integers(1, 21, 1500))
        total[:20] = 1 << np.arange(20)
        unit = RowScale()
        steady = {"m": np.full(1500, m), "s": np.full(1500, s)}
        rtl = run_pipelined(unit, {"sum": total, **steady}, ("row_m", "row_s"))
        row_m, row_s = row_scale(total, m, s)
        np.testing.assert_array_equal(rtl["row_m"], row_m)
        np.testing.assert_array_equal(rtl["row_s"], row_s)


@pytest.mark.parametrize(
    ("lanes", "tokens", "message"),
    [
        (0, 8, r"Softmax: lanes is 0: it must lie in 1\.\.64"),
        (4, 0, r"Softmax: tokens is 0: it must lie in 1\.\.4096"),
        (4, 4097, r"Softmax: tokens is 4097: it must lie in 1\.\.4096"),
    ],
)
def test_parameters_out_of_range(lanes: int, tokens: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Softmax(lanes, tokens)

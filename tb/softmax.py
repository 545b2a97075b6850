"""Exercise of the softmax unit: tiles through both buffers, p and row scales read back."""

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from golden.softmax import row_scale, softmax
from tb.compare import Comparison
from tb.cut import Vector
from tb.packing import by_lanes
from tb.ports import Ports, give

READ_LATENCY = 2
START_LATENCY = 4


@dataclass
class Tile:
    """Scores int16 [lanes, keys] of one tile of queries, and the multiplier of its context.

    seen, bool [lanes, keys], are the keys that a query has in its window; None: all.
    """

    scores: np.ndarray
    m: int
    s: int
    seen: np.ndarray | None = None

    @property
    def window(self) -> np.ndarray:
        """`seen`, whether given or not."""
        return np.ones(self.scores.shape, bool) if self.seen is None else self.seen


@dataclass
class Seen:
    """What the unit did with one tile; all cycles count from the start of the run."""

    last: int = -1  # cycle of score_last
    finished: int = 0
    p: list[list[int]] = field(default_factory=list)  # read back
    p_cycles: list[int] = field(default_factory=list)
    trace_p: list[list[int]] = field(default_factory=list)
    trace_keys: list[int] = field(default_factory=list)
    trace_cycles: list[int] = field(default_factory=list)
    rows: dict[str, list[int]] = field(default_factory=dict)
    """Maximum, sum and scale (m, s) of the rows, the latter in the cycle of `finished` and, as
    "kept", in the cycle before the next one."""


async def write_mask(ports: Ports, attend: np.ndarray) -> None:
    """Write the attend bits, a key a cycle."""
    for key, bit in enumerate(attend):
        give(ports, "mask_", en=1, address=key, attend=int(bit))
        await ports.tick()
    ports.set("mask_en", 0)


async def play_tiles(
    ports: Ports, tiles: list[Tile], attend: np.ndarray, *, idle: float, seed: int
) -> list[Seen]:
    """Send tiles as fast as the buffers allow, with random idle cycles; read each one back.

    A tile is sent when the pass of the one before the last has finished, so one may wait. p is
    read from the cycle of `finished` on, a key a cycle, while the next pass runs. What is not
    looked at is noise: columns and their multipliers, the mask's writes, addresses of p.
    """
    rng, noise = np.random.default_rng(seed), np.random.default_rng(seed + 1)

    def any_of(**limits: int) -> None:
        give(ports, **{name: int(noise.integers(limit)) for name, limit in limits.items()})

    await write_mask(ports, attend)
    seen = [Seen() for _ in tiles]
    keys = len(attend)
    sending, key = 0, 0
    finished, traced = 0, 0
    reads: list[tuple[int, int]] = []  # tile and key still to be asked for
    due: list[tuple[int, int]] = []  # cycle in which the word shows, tile
    cycle = 0
    while finished < len(tiles) or reads or due:
        if ports.get("finished"):
            seen[finished].finished = cycle
            ports.set("row_buffer", finished % 2)
            reads += [(finished, k) for k in range(keys)]
        if reads:
            tile, wanted = reads.pop(0)
            give(ports, "p_", buffer=tile % 2, address=wanted)
            due.append((cycle + READ_LATENCY, tile))
        else:
            any_of(p_buffer=2, p_address=keys)
        any_of(mask_address=keys, mask_attend=2)
        send = sending < len(tiles) and finished >= sending - 1 and rng.random() >= idle
        ports.set("score_en", int(send))
        if send:
            last, tile_sent = key == keys - 1, tiles[sending]
            column = tile_sent.scores[:, key].tolist()
            give(ports, "score_", buffer=sending % 2, first=int(key == 0), last=int(last))
            give(ports, "score_", key=key, place=key, data=column)
            ports.set("score_seen", bits(tile_sent.window[:, key]))
            if last:
                give(ports, "context_", m=tile_sent.m, s=tile_sent.s)
                seen[sending].last = cycle
            else:
                any_of(context_m=1 << 16, context_s=32)
            sending, key = (sending + 1, 0) if last else (sending, key + 1)
        else:
            any_of(score_buffer=2, score_first=2, score_last=2, score_key=keys, score_place=keys)
            any_of(context_m=1 << 16, context_s=32)
            lanes = tiles[0].scores.shape[0]
            ports.set("score_data", noise.integers(-(1 << 15), 1 << 15, lanes).tolist())
        await ports.settle()
        ended = finished + ports.get("finished")
        passes = any(0 <= tile.last < cycle for tile in seen[ended:])
        assert ports.get("busy") == passes, f"busy is {not passes} in cycle {cycle}"
        kept = "" if ports.get("finished") else " kept"
        finished += ports.get("finished")
        if finished:
            seen[finished - 1].rows |= {f"{x}{kept}": ports.get(x) for x in ("row_m", "row_s")}
        if ports.get("trace_p_en"):
            seen[traced].trace_p.append(ports.get("trace_p"))
            seen[traced].trace_keys.append(ports.get("trace_p_key"))
            seen[traced].trace_cycles.append(cycle)
        if ports.get("trace_row_en"):
            seen[traced].rows |= {name: ports.get(f"trace_{name}") for name in ("max", "sum")}
            traced += 1
        if due and due[0][0] == cycle:
            tile = due.pop(0)[1]
            seen[tile].p.append(ports.get("p_data"))
            seen[tile].p_cycles.append(cycle)
        assert cycle < 100_000, "the softmax unit hangs"
        await ports.tick()
        cycle += 1
    assert not ports.get("busy"), "busy after the last pass"
    return seen


def pass_cycles(lanes: int, keys: int) -> int:
    """Cycles of a pass, as the unit's data sheet says."""
    return keys + lanes + 21


async def check_softmax(
    ports: Ports, tiles: list[Tile], attend: np.ndarray, *, idle: float = 0.0, seed: int = 0
) -> list[Seen]:
    """Run tiles and compare p, maximum, sum, row scales and the cycles of `finished`."""
    comparison = Comparison()
    seen_tiles = await play_tiles(ports, tiles, attend, idle=idle, seed=seed)
    lanes, keys = tiles[0].scores.shape
    free = 0
    for index, (tile, seen) in enumerate(zip(tiles, seen_tiles)):
        p, row_max, row_sum = softmax(tile.scores, attend & tile.window)
        row_m, row_s = row_scale(row_sum, tile.m, tile.s)
        for name, words, cycles in (
            ("p", seen.p, seen.p_cycles),
            ("trace_p", seen.trace_p, seen.trace_cycles),
        ):
            when, axes = np.array(cycles).reshape(1, -1, 1), ("tile", "index", "lane")
            comparison.tensor(name, p.T[None], np.array(words)[None], axes, when)
        when = np.array(seen.finished)
        wanted = {"max": row_max, "sum": row_sum, "row_m": row_m, "row_s": row_s}
        wanted |= {"row_m kept": row_m, "row_s kept": row_s}
        for name, expected in wanted.items():
            actual = np.array(seen.rows.get(name, []))[None]
            comparison.tensor(name, expected[None], actual, ("tile", "lane"), when)
        free = max(seen.last + START_LATENCY, free) + pass_cycles(lanes, keys)
        comparison.tensor("finished", np.array([free]), np.array([seen.finished]), ("pass",))
        comparison.tensor("p keys", np.arange(keys), np.array(seen.trace_keys), ("index",))
        if comparison.first is not None:
            position = {**comparison.first.position, "tile": index}
            comparison.first = dataclasses.replace(comparison.first, position=position)
            break
    comparison.check()
    return seen_tiles


def random_tiles(lanes: int, keys: int, count: int, spread: int, seed: int) -> list[Tile]:
    """Normally distributed scores and random multipliers."""
    rng = np.random.default_rng(seed)
    return [
        Tile(
            np.clip(rng.normal(0, spread, (lanes, keys)), -32768, 32767).astype(np.int16),
            int(rng.integers(1 << 15, 1 << 16)),
            int(rng.integers(14, 24)),
        )
        for _ in range(count)
    ]


def bits(lanes: np.ndarray) -> int:
    """A bit for each lane, lane 0 in the lowest."""
    return sum(int(bit) << lane for lane, bit in enumerate(lanes))


def in_windows(tiles: list[Tile], seed: int) -> list[Tile]:
    """The tiles with a window for each query, in the last lane without any key.

    s is at most 39, as in every model, so that the scale of such a row has 6 bits.
    """
    rng, found = np.random.default_rng(seed), []
    for tile in tiles:
        lanes, keys = tile.scores.shape
        first, last = np.sort(rng.integers(-1, keys + 1, (2, lanes, 1)), axis=0)
        last[-1] = first[-1] - 1
        place = np.arange(keys)
        seen = (place >= first) & (place <= last)
        found.append(dataclasses.replace(tile, s=min(tile.s, 39), seen=seen))
    return found


def random_mask(keys: int, seed: int) -> np.ndarray:
    """A mask with holes; at least one key is valid."""
    attend = np.random.default_rng(seed).random(keys) < 0.7
    attend[keys // 2] = True
    return attend


def steps(lanes: int, keys: int, count: int, seed: int) -> list[Tile]:
    """Scores that rise by little from key to key, so that most are above the one before alone."""
    rng = np.random.default_rng(seed)
    rises = rng.integers(-1, 4, (count, lanes, keys))
    begin = rng.integers(-40, 40, (count, lanes, 1))
    return [Tile(t.astype(np.int16), 40000, 20) for t in begin + np.cumsum(rises, axis=2)]


def close_tiles(lanes: int, keys: int, count: int, seed: int) -> list[Tile]:
    """Scores anywhere that differ by as much as any one bit of them, and any multipliers."""
    rng = np.random.default_rng(seed)
    around = rng.integers(-(1 << 15), 1 << 15, (count, lanes, 1))
    apart = 1 << rng.integers(0, 12, (count, lanes, 1))
    scores = np.clip(around + rng.integers(-apart, apart + 1, (count, lanes, keys)), -32768, 32767)
    return [
        Tile(tile, int(rng.integers(1 << 15, 1 << 16)), int(rng.integers(1, 48)))
        for tile in scores.astype(np.int16)
    ]


def corner_tiles(lanes: int) -> tuple[list[Tile], np.ndarray]:
    """Extreme and equal scores, a masked key above the maximum, the ends of every shift."""
    low, high = -32768, 32767
    rows = np.array(
        [
            [low, low, low, low, low, low],
            [high, low, 0, high, -1, 1],
            [high, 5, 5, 4, 5 - 2047, 5 - 2048],
            [high, 0, -2048 + 255, -2048, -2303, -2304],
        ]
    )
    scores = np.resize(rows, (lanes, 6)).astype(np.int16)
    attend = np.array([False, True, True, True, True, True])
    return [Tile(scores, 1 << 15, 1), Tile(scores, 0xFFFF, 31), Tile(scores, 40000, 47)], attend


def long_tiles(lanes: int, keys: int) -> list[Tile]:
    """Rows of the sums 2^20 - 1, 2^20, 2^20 + 1 and 255 * keys; more than 4,112 keys."""
    scores = np.full((4, keys), -32768, np.int16)
    scores[:, -4112:] = 0
    for row, p in enumerate((15, 16, 17)):
        scores[row, row] = np.rint(256 * np.log2(p / 255))
    scores[3] = 0
    return [Tile(np.resize(scores, (lanes, keys)), m, s) for m, s in ((40000, 26), (1 << 15, 1))]


def all_distances(lanes: int, tokens: int) -> list[Tile]:
    """The distances 0..2599, spread over lanes and tiles: the whole table at every shift."""
    keys = min(tokens, 64)
    distances = np.resize(np.arange(2600), -(-2600 // (lanes * (keys - 1))) * lanes * (keys - 1))
    rows = distances.reshape(-1, lanes, keys - 1)
    return [
        Tile(-np.pad(tile, ((0, 0), (0, 1))).astype(np.int16), 40000, 20)  # the last key: the max
        for tile in rows
    ]


def from_vector(vector: Vector, lanes: int) -> tuple[list[Tile], np.ndarray]:
    """Real scores, `lanes` rows a tile, with the attend bits of their text."""
    scores = vector.inputs["scores"].values
    m, s = (int(vector.inputs[name].values) for name in "ms")
    tiles = [Tile(tile, m, s) for tile in by_lanes(scores, lanes)]
    return tiles, vector.inputs["attend"].values.astype(bool)

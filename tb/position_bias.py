"""Exercise of the position bias: a table written, and columns of scores that get it or do not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from golden.position_bias import add_position_bias
from rtl.interface.config import power_of_two
from tb.compare import Comparison
from tb.cut import Vector
from tb.ports import Ports, give

AHEAD = 3  # from the place of a column to its score
CORNERS = (-32768, -32767, -16385, -1, 0, 1, 16384, 32766, 32767)


@dataclass(frozen=True, eq=False)
class Block:
    """Columns side by side: of the queries of row tile `row` the first keys of row tile `key_row`.

    scores int16 [lanes, keys], 1 to N keys.
    """

    head: int
    row: int
    key_row: int
    scores: np.ndarray


def random_table(heads: int, tokens: int, seed: int, *, corners: bool = False) -> np.ndarray:
    """A bias of any int16, or of the corners, [heads, 2 * tokens - 1]."""
    rng, size = np.random.default_rng(seed), (heads, 2 * tokens - 1)
    if corners:
        return rng.choice(np.array(CORNERS, np.int16), size)
    return rng.integers(-(1 << 15), 1 << 15, size, dtype=np.int16)


def every_place(table: np.ndarray, lanes: int, seed: int, *, corners: bool = False) -> list[Block]:
    """Every row tile of keys apart from one of queries, of every head, in any order.

    With corners each lane's scores go through them for every corner of the bias, so that all pairs
    are added.
    """
    rng = np.random.default_rng(seed)
    heads, rows = len(table), (table.shape[1] + 1) // 2 // lanes
    places = [(h, apart) for h in range(heads) for apart in range(1 - rows, rows)]
    seen = {(lane, int(b)): 0 for lane in range(lanes) for b in CORNERS}
    found = []
    for head, apart in (places[place] for place in rng.permutation(len(places))):
        row = int(rng.integers(max(0, -apart), min(rows, rows - apart)))
        scores = rng.integers(-(1 << 15), 1 << 15, (lanes, lanes), dtype=np.int16)
        if corners:
            for lane, key in np.ndindex(lanes, lanes):
                column = key + apart * lanes - lane + table.shape[1] // 2
                bias = lane, int(table[head, column])
                scores[lane, key] = CORNERS[seen[bias] % len(CORNERS)]
                seen[bias] += 1
        found.append(Block(head, row, row + apart, scores))
    return found


def parts(blocks: Sequence[Block], seed: int) -> list[Block]:
    """The same blocks, each up to a key of its own."""
    rng = np.random.default_rng(seed)
    ends = (int(rng.integers(1, block.scores.shape[1] + 1)) for block in blocks)
    return [
        Block(block.head, block.row, block.key_row, block.scores[:, :end])
        for block, end in zip(blocks, ends)
    ]


def golden(table: np.ndarray, block: Block) -> np.ndarray:
    """The block with its bias, int16 [lanes, keys]."""
    lanes, keys = block.scores.shape
    tokens = (table.shape[1] + 1) // 2
    scores = np.zeros((len(table), tokens, tokens), np.int16)
    queries, first = slice(block.row * lanes, (block.row + 1) * lanes), block.key_row * lanes
    scores[block.head, queries, first : first + keys] = block.scores
    return add_position_bias(scores, table)[block.head, queries, first : first + keys]


def words(table: np.ndarray, lanes: int, each: int, seed: int = 0) -> dict[int, list[int]]:
    """The word at each address, as the unit's data sheet says; noise where no k - q is.

    each
        2^k, the words of a head.
    """
    rng = np.random.default_rng(seed)
    tokens = (table.shape[1] + 1) // 2
    rows = tokens // lanes
    found = {}
    for head, values in enumerate(table.tolist()):
        for word in range(1 - rows, rows + 1):
            apart = [(word - 1) * lanes + 1 + place for place in range(lanes)]
            noise = rng.integers(-(1 << 15), 1 << 15, lanes).tolist()
            found[head * each + word % each] = [
                values[d + tokens - 1] if abs(d) < tokens else other
                for d, other in zip(apart, noise)
            ]
    return found


def along(tokens: int) -> dict[str, int]:
    """Values, by name, of what goes along with a score."""
    return {"buffer": 2, "first": 2, "last": 2, "key": tokens, "place": tokens}


def columns(
    block: Block, tokens: int, rng: np.random.Generator
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The place and the score of each column, by port, with anything along with them."""
    lanes = len(block.scores)
    word = (block.key_row - block.row) % power_of_two(2 * tokens // lanes)
    for key, score in enumerate(block.scores.T.tolist()):
        others = {name: int(rng.integers(most)) for name, most in along(tokens).items()}
        place = {"head": block.head, "word": word, "column": key}
        yield place, {"en": 1, "data": score} | others


async def write(ports: Ports, table: np.ndarray, lanes: int, seed: int = 0) -> None:
    """Write the table, a word a cycle, in any order."""
    each = power_of_two(table.shape[1] // lanes + 1)
    listed = list(words(table, lanes, each, seed).items())
    for place in np.random.default_rng(seed).permutation(len(listed)).tolist():
        address, values = listed[place]
        give(ports, "write_", en=1, address=address, data=values)
        await ports.tick()
    ports.set("write_en", 0)


async def check_scores(
    ports: Ports,
    table: np.ndarray,
    blocks: Sequence[Block],
    *,
    biased: bool = True,
    idle: float = 0.0,
    seed: int = 0,
) -> None:
    """Write the table and send the blocks, with random pauses between them; compare each score.

    What is not looked at is noise: the places and columns of pauses, and the write port.
    """
    lanes, tokens = len(blocks[0].scores), (table.shape[1] + 1) // 2
    await write(ports, table, lanes, seed)
    ports.set("biased", int(biased))
    rng, noise = np.random.default_rng(seed), np.random.default_rng([seed, 2])
    sent: dict[int, tuple[dict[str, Any], dict[str, Any], list[int]]] = {}  # by its place's cycle
    cycle = 0
    for block in blocks:
        while rng.random() < idle:
            cycle += 1
        wanted = golden(table, block) if biased else block.scores
        for pair, column in zip(columns(block, tokens, rng), wanted.T.tolist(), strict=True):
            sent[cycle] = *pair, column
            cycle += 1
    expected, actual, cycles = [], [], []
    heads, each = len(table), power_of_two(2 * tokens // lanes)
    limits = {"place_head": heads, "place_word": each, "place_column": lanes}
    limits |= {"write_address": heads * each, "score_en": 1}
    limits |= {f"score_{name}": most for name, most in along(tokens).items()}
    for now in range(cycle + AHEAD + ports.latency):
        give(ports, **{name: int(noise.integers(most)) for name, most in limits.items()})
        for name in ("write_data", "score_data"):
            ports.set(name, noise.integers(-(1 << 15), 1 << 15, lanes).tolist())
        if now in sent:
            give(ports, "place_", **sent[now][0])
        if now - AHEAD in sent:
            give(ports, "score_", **sent[now - AHEAD][1])
        await ports.settle()
        due = sent.get(now - AHEAD - ports.latency)
        assert ports.get("o_en") == (due is not None), f"o.en in cycle {now}"
        if due is not None:
            _, score, column = due
            for name in along(tokens):
                assert ports.get(f"o_{name}") == score[name], f"o.{name} in cycle {now}"
            expected.append(column)
            actual.append(ports.get("o_data"))
            cycles.append([now])
        await ports.tick()
    ports.set("score_en", 0)
    comparison = Comparison()
    axes = ("column", "lane")
    comparison.tensor("scores", np.array(expected), np.array(actual), axes, np.array(cycles))
    comparison.check()


def from_vector(vector: Vector, lanes: int, table: np.ndarray) -> tuple[np.ndarray, list[Block]]:
    """The table with a real model's bias in its middle, and every block of that model's scores.

    Queries that fill a row tile score 0.
    """
    scores, given = (vector.inputs[name].values.astype(np.int16) for name in ("scores", "table"))
    (heads, length, _), middles = scores.shape, (table.shape[1] // 2, given.shape[1] // 2)
    here, there = (slice(middle - min(middles), middle + min(middles) + 1) for middle in middles)
    table[:, here] = given[:, there]
    own = table[:, middles[0] - length + 1 : middles[0] + length]
    assert np.array_equal(add_position_bias(scores, own), vector.outputs["y"].values)
    tiles = np.pad(scores, ((0, 0), (0, -length % lanes), (0, 0))).reshape(heads, -1, lanes, length)
    rows = tiles.shape[1]
    return table, [
        Block(head, row, key, tiles[head, row, :, key * lanes : (key + 1) * lanes])
        for head, row, key in np.ndindex(heads, rows, rows)
    ]

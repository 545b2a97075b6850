"""Exercises of the MAC array: tiles scheduled as the issuer may, and their products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from golden.linear import LOW_BITS
from golden.matmul import matmul
from tb.compare import Comparison
from tb.cut import Vector
from tb.pipelined import stream
from tb.ports import Ports

Tiles = list[tuple[np.ndarray, np.ndarray]]
"""Operands A and B of each tile, [K, N] and [K, M]: int8 or uint8, and int8."""

WIDE_LENGTHS = [1, 1, 9, 9, 5, 5, 2, 2, 37, 37, 3, 1, 1, 4, 4]
WIDE_JOINED = [False, True] * 5 + [False, False, True, False, True]
"""Tiles of wide operands, low halves and high ones, and one of other operands between them."""


def random_tiles(lanes: int, columns: int, lengths: list[int], seed: int) -> Tiles:
    """A tile of each length; A is int8 as activations are, and uint8 as p is, in turn."""
    rng = np.random.default_rng(seed)
    found = []
    for place, k in enumerate(lengths):
        dtype = (np.int8, np.uint8)[place % 2]
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        a = rng.integers(low, high, (k, lanes), dtype=dtype, endpoint=True)
        found.append((a, rng.integers(-128, 128, (k, columns), dtype=np.int8)))
    return found


def extreme_tiles(lanes: int, columns: int, k: int) -> Tiles:
    """The widest sums of K products."""
    return [
        (np.full((k, lanes), a, dtype), np.full((k, columns), b, np.int8))
        for a, dtype in ((255, np.uint8), (-128, np.int8))
        for b in (-128, 127)
    ]


def random_counts(tiles: Tiles, seed: int) -> list[int]:
    """Columns of each tile that count, a single one as often as all."""
    columns = tiles[0][1].shape[1]
    rng = np.random.default_rng(seed)
    return [int(rng.choice((1, columns, rng.integers(1, columns + 1)))) for _ in tiles]


def cut_tiles(vector: Vector, lanes: int, columns: int) -> Tiles:
    """The tiles of a product of `tb.vectors`, row tile after row tile, padded with zeros."""
    a, b = vector.inputs["a"].values, vector.inputs["b"].values
    a = np.pad(a, ((0, -len(a) % lanes), (0, 0)))
    b = np.pad(b, ((0, 0), (0, -b.shape[1] % columns)))
    a = a.astype(np.int8 if vector.inputs["a"].signed else np.uint8)
    return [
        (a[row : row + lanes].T, b[:, column : column + columns].astype(np.int8))
        for row in range(0, len(a), lanes)
        for column in range(0, b.shape[1], columns)
    ]


def products(tiles: Tiles, joined: Sequence[bool] = ()) -> list[np.ndarray]:
    """acc of every tile; one that is joined goes on from the one before it, by its floor / 2^8."""
    found: list[np.ndarray] = []
    for (a, b), goes_on in zip(tiles, joined or [False] * len(tiles), strict=True):
        found.append(matmul(a.T, b) + (found[-1] >> LOW_BITS if goes_on else 0))
    return found


def schedule(
    tiles: Tiles,
    pauses: float,
    seed: int = 1,
    joined: Sequence[bool] = (),
    counts: Sequence[int] = (),
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The inputs of every cycle, and the cycle of each tile's last operand.

    `pauses` is the probability of a cycle without operand, in which the other inputs are noise.
    A tile ends at least as many cycles after another as columns of that one count, all M by
    default, and exactly that where it is short. One that another is joined to has no last operand,
    and does not wait.
    """
    lanes, drain = tiles[0][0].shape[1], tiles[0][1].shape[1]
    counts = counts or [drain] * len(tiles)
    rng = np.random.default_rng(seed)
    words: dict[str, list[np.ndarray]] = {"a": [], "b": []}
    flags: list[tuple[int, ...]] = []
    ends: list[int] = []
    drained = 0  # when what counts of the latest tile that drains is out

    def nothing() -> None:
        words["a"].append(rng.choice((-128, 255), lanes))
        words["b"].append(rng.choice((-128, 127), drain))
        flags.append((0, int(rng.integers(2)), int(rng.integers(2)), 1))

    goes_on = [*joined, *[False] * (len(tiles) - len(joined)), False]
    for number, (a, b) in enumerate(tiles):
        drains = not goes_on[number + 1]
        for k in range(len(a)):
            last = k == len(a) - 1 and drains
            while rng.random() < pauses or (last and len(flags) < drained):
                nothing()
            words["a"].append(a[k])
            words["b"].append(b[k])
            flags.append((1, int(k == 0), int(last), int(goes_on[number])))
        ends.append(len(flags) - 1)
        drained = ends[-1] + counts[number] if drains else drained
    for _ in range(drain):
        nothing()
    inputs = {name: np.array([w.astype(np.int64) for w in part]) for name, part in words.items()}
    inputs |= dict(zip(("valid", "first", "last", "joined"), np.array(flags).T))
    if not len(joined):
        del inputs["joined"]
    return inputs, np.array(ends)


async def check_tiles(
    ports: Ports,
    tiles: Tiles,
    pauses: float = 0.0,
    joined: Sequence[bool] = (),
    counts: Sequence[int] = (),
) -> None:
    """Stream the tiles and compare every drained column that counts with golden's product.

    With `config.precise` joined has a bool for each.
    """
    inputs, ends = schedule(tiles, pauses, joined=joined, counts=counts)
    columns = (await stream(ports, inputs, ("o",)))["o"]
    drains = ~np.append(joined, False)[1:].astype(bool) if len(joined) else [True] * len(tiles)
    comparison = Comparison()
    for number, acc in enumerate(products(tiles, joined)):
        if drains[number]:
            count = counts[number] if counts else acc.shape[1]
            places = ends[number] + np.arange(count)
            pair, when = (acc.T[:count], columns[places]), places[:, None] + ports.latency
            comparison.tensor(f"acc of tile {number}", *pair, ("column", "lane"), when)
    comparison.check()

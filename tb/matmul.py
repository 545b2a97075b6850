"""Exercises of the MAC array: tiles scheduled as the issuer may, and their products."""

from __future__ import annotations

import numpy as np

from golden.matmul import matmul
from tb.compare import Comparison
from tb.cut import Vector
from tb.pipelined import stream
from tb.ports import Ports

Tiles = list[tuple[np.ndarray, np.ndarray]]
"""Operands A and B of each tile, [K, lanes]: int8 or uint8, and int8."""


def random_tiles(lanes: int, lengths: list[int], seed: int) -> Tiles:
    """A tile of each length; A is int8 as activations are, and uint8 as p is, in turn."""
    rng = np.random.default_rng(seed)
    found = []
    for place, k in enumerate(lengths):
        dtype = (np.int8, np.uint8)[place % 2]
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        a = rng.integers(low, high, (k, lanes), dtype=dtype, endpoint=True)
        found.append((a, rng.integers(-128, 128, (k, lanes), dtype=np.int8)))
    return found


def extreme_tiles(lanes: int, k: int) -> Tiles:
    """The widest sums of K products."""
    return [
        (np.full((k, lanes), a, dtype), np.full((k, lanes), b, np.int8))
        for a, dtype in ((255, np.uint8), (-128, np.int8))
        for b in (-128, 127)
    ]


def cut_tiles(vector: Vector, lanes: int) -> Tiles:
    """The tiles of a product of `tb.vectors`, row tile after row tile, padded with zeros."""
    a, b = vector.inputs["a"].values, vector.inputs["b"].values
    a = np.pad(a, ((0, -len(a) % lanes), (0, 0)))
    b = np.pad(b, ((0, 0), (0, -b.shape[1] % lanes)))
    a = a.astype(np.int8 if vector.inputs["a"].signed else np.uint8)
    return [
        (a[row : row + lanes].T, b[:, column : column + lanes].astype(np.int8))
        for row in range(0, len(a), lanes)
        for column in range(0, b.shape[1], lanes)
    ]


def schedule(
    tiles: Tiles, lanes: int, pauses: float, seed: int = 1, parts: int = 1
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The inputs of every cycle, and the cycle of each tile's last operand.

    `pauses` is the probability of a cycle without operand, in which the other inputs are noise.
    Tiles end at least `lanes` * `parts` cycles apart, and exactly that where they are short.
    """
    drain = lanes * parts
    rng = np.random.default_rng(seed)
    words: dict[str, list[np.ndarray]] = {"a": [], "b": []}
    flags: list[tuple[int, int, int]] = []
    ends: list[int] = []

    def nothing() -> None:
        words["a"].append(rng.choice((-128, 255), lanes))
        words["b"].append(rng.choice((-128, 127), lanes))
        flags.append((0, int(rng.integers(2)), int(rng.integers(2))))

    for a, b in tiles:
        for k in range(len(a)):
            last = k == len(a) - 1
            while rng.random() < pauses or (last and ends and len(flags) - ends[-1] < drain):
                nothing()
            words["a"].append(a[k])
            words["b"].append(b[k])
            flags.append((1, int(k == 0), int(last)))
        ends.append(len(flags) - 1)
    for _ in range(drain):
        nothing()
    inputs = {name: np.array([w.astype(np.int64) for w in part]) for name, part in words.items()}
    inputs |= dict(zip(("valid", "first", "last"), np.array(flags).T))
    return inputs, np.array(ends)


async def check_tiles(
    ports: Ports, tiles: Tiles, lanes: int, pauses: float = 0.0, parts: int = 1
) -> None:
    """Stream the tiles and compare every drained column with golden's product, part by part."""
    inputs, ends = schedule(tiles, lanes, pauses, parts=parts)
    columns = (await stream(ports, inputs, ("o",)))["o"]
    places = ends[:, None] + np.arange(lanes * parts)
    expected = np.array([matmul(a.T, b).T for a, b in tiles])
    comparison = Comparison()
    comparison.tensor(
        "acc",
        expected.reshape(len(tiles), lanes * parts, lanes // parts),
        columns[places],
        ("tile", "part of a column", "lane"),
        places[..., None] + ports.latency,
    )
    comparison.check()

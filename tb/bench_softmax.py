"""Softmax against golden.softmax, and its cycles against the formula of its data sheet."""

from typing import Any

import numpy as np

from tb import softmax
from tb.cocotb_ports import NOT_EXHAUSTIVE, WITHOUT_VECTORS, CocotbPorts, unit_test, vectors
from tb.softmax import Tile, check_softmax, random_mask, random_tiles


async def check(
    ports: CocotbPorts, tiles: list[Tile], mask: np.ndarray | None = None, **settings: Any
) -> None:
    """The tiles, first with all keys seen, then in windows."""
    keys = tiles[0].scores.shape[1]
    mask = np.ones(keys, bool) if mask is None else mask
    await check_softmax(ports, tiles + softmax.in_windows(tiles, keys), mask, **settings)


@unit_test(idle=[0.0, 0.5], keys=[1, 7, 32], spread=[300, 4000])
async def tiles(ports: CocotbPorts, idle: float, keys: int, spread: int) -> None:
    keys = min(keys, ports.config["tokens"])
    work = random_tiles(ports.config["lanes"], keys, 4, spread, 1)
    await check(ports, work, random_mask(keys, seed=keys), idle=idle)


@unit_test()
async def as_many_keys_as_fit(ports: CocotbPorts) -> None:
    lanes, tokens = ports.config["lanes"], ports.config["tokens"]
    work = random_tiles(lanes, tokens, 3, 500, 6)
    await check(ports, work, random_mask(tokens, seed=5), idle=0.1)


@unit_test()
async def corners(ports: CocotbPorts) -> None:
    await check(ports, *softmax.corner_tiles(ports.config["lanes"]))


@unit_test()
async def scores_that_rise_by_little(ports: CocotbPorts) -> None:
    await check(ports, softmax.steps(ports.config["lanes"], 6, 10, 7))


@unit_test()
async def scores_that_differ_in_any_bit(ports: CocotbPorts) -> None:
    await check(ports, softmax.close_tiles(ports.config["lanes"], 6, 100, 8))


@unit_test()
async def every_distance(ports: CocotbPorts) -> None:
    work = softmax.all_distances(ports.config["lanes"], ports.config["tokens"])
    await check_softmax(ports, work, np.ones(work[0].scores.shape[1], bool))


@unit_test(cycles=[9, 40, 77])
async def reset_in_the_middle(ports: CocotbPorts, cycles: int) -> None:
    mask = random_mask(12, seed=3)
    first, second = (random_tiles(ports.config["lanes"], 12, 3, 700, seed) for seed in (2, 4))
    await ports.interrupt(check(ports, first, mask), cycles)
    await check(ports, second, mask)


@unit_test(skip=NOT_EXHAUSTIVE)
async def rows_as_long_as_there_are(ports: CocotbPorts) -> None:
    """Sums on both sides of 2^20, and of all keys."""
    lanes, keys = ports.config["lanes"], ports.config["tokens"]
    tiles = softmax.long_tiles(lanes, keys)
    found = await check_softmax(ports, tiles, np.ones(keys, bool))
    assert found[0].rows["sum"] == [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 255 * keys]
    masked = [*random_tiles(lanes, keys, 2, 300, 1), *tiles]
    await check_softmax(ports, masked, random_mask(keys, seed=1), idle=0.1)


@unit_test(skip=WITHOUT_VECTORS)
async def real_reviews(ports: CocotbPorts) -> None:
    for vector in vectors("softmax"):
        await check_softmax(ports, *softmax.from_vector(vector, ports.config["lanes"]))

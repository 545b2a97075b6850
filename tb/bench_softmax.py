"""Softmax against golden.softmax, and its cycles against the formula of its data sheet."""

import dataclasses
from typing import Any

import cocotb
import numpy as np

from tb import softmax
from tb.cocotb_ports import WITHOUT_VECTORS, start, vectors
from tb.softmax import Tile, check_softmax, random_mask, random_tiles


async def check(ports: Any, tiles: list[Tile], mask: np.ndarray, **settings: Any) -> None:
    """The tiles; on hardware with windows first with all keys seen, then in windows."""
    if not ports.config["windows"]:
        await check_softmax(ports, tiles, mask, **settings)
        return
    lanes, keys = tiles[0].scores.shape
    every = np.ones((lanes, keys), bool)
    whole = [dataclasses.replace(tile, seen=every) for tile in tiles]
    await check_softmax(ports, whole + softmax.in_windows(tiles, keys), mask, **settings)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], keys=[1, 7, 32], spread=[300, 4000])
async def tiles(dut: Any, idle: float, keys: int, spread: int) -> None:
    ports = await start(dut)
    keys = min(keys, ports.config["tokens"])
    lanes = ports.config["lanes"]
    mask = random_mask(keys, seed=keys)
    await check(ports, random_tiles(lanes, keys, 4, spread, 1), mask, idle=idle)


@cocotb.test()
async def as_many_keys_as_fit(dut: Any) -> None:
    ports = await start(dut)
    lanes, tokens = ports.config["lanes"], ports.config["tokens"]
    mask = random_mask(tokens, seed=5)
    await check(ports, random_tiles(lanes, tokens, 3, 500, 6), mask, idle=0.1)


@cocotb.test()
async def corners(dut: Any) -> None:
    ports = await start(dut)
    await check(ports, *softmax.corner_tiles(ports.config["lanes"]))


@cocotb.test()
async def scores_that_rise_by_little(dut: Any) -> None:
    ports = await start(dut)
    work = softmax.steps(ports.config["lanes"], 6, 10, 7)
    await check(ports, work, np.ones(6, bool))


@cocotb.test()
async def scores_that_differ_in_any_bit(dut: Any) -> None:
    ports = await start(dut)
    work = softmax.close_tiles(ports.config["lanes"], 6, 100, 8)
    await check(ports, work, np.ones(6, bool))


@cocotb.test()
async def every_distance(dut: Any) -> None:
    ports = await start(dut)
    work = softmax.all_distances(ports.config["lanes"], ports.config["tokens"])
    await check(ports, work, np.ones(work[0].scores.shape[1], bool))


@cocotb.test()
@cocotb.parametrize(cycles=[9, 40, 77])
async def reset_in_the_middle(dut: Any, cycles: int) -> None:
    ports = await start(dut)
    lanes = ports.config["lanes"]
    mask = random_mask(12, seed=3)
    work = random_tiles(lanes, 12, 3, 700, 2)
    await ports.interrupt(check(ports, work, mask), cycles)
    await check(ports, random_tiles(lanes, 12, 3, 700, 4), mask)


@cocotb.test(skip=WITHOUT_VECTORS)
async def real_reviews(dut: Any) -> None:
    ports = await start(dut)
    for vector in vectors("softmax"):
        await check(ports, *softmax.from_vector(vector, ports.config["lanes"]))

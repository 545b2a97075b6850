"""PositionBias against golden.position_bias."""

import numpy as np

from tb.cocotb_ports import WITHOUT_VECTORS, CocotbPorts, unit_test, vectors
from tb.position_bias import Block, check_scores, every_place, from_vector, parts, random_table


def work(
    ports: CocotbPorts, seed: int, **kinds: bool
) -> tuple[CocotbPorts, np.ndarray, list[Block]]:
    """The ports, a table for what the unit was made for, and every place in it."""
    lanes, heads = ports.config["lanes"], max(ports.config["bias_heads"], 1)
    table = random_table(heads, -(-ports.config["tokens"] // lanes) * lanes, seed, **kinds)
    return ports, table, every_place(table, lanes, seed, **kinds)


@unit_test(idle=[0.0, 0.5])
async def every_distance(ports: CocotbPorts, idle: float) -> None:
    await check_scores(*work(ports, 1), idle=idle, seed=1)


@unit_test()
async def corners(ports: CocotbPorts) -> None:
    for seed in (2, 3):
        await check_scores(*work(ports, seed, corners=True), seed=seed)


@unit_test()
async def tiles_that_end_early(ports: CocotbPorts) -> None:
    _, table, blocks = work(ports, 4)
    await check_scores(ports, table, parts(blocks, 4), idle=0.3, seed=4)


@unit_test()
async def scores_without_a_bias(ports: CocotbPorts) -> None:
    _, table, blocks = work(ports, 5)
    await check_scores(ports, table, blocks, biased=False, idle=0.3, seed=5)
    await check_scores(ports, table, blocks[:5], seed=6)


@unit_test(cycles=[20, 150])
async def reset_in_the_middle(ports: CocotbPorts, cycles: int) -> None:
    _, table, blocks = work(ports, 7)
    await ports.interrupt(check_scores(ports, table, blocks), cycles)
    await check_scores(ports, work(ports, 8)[1], blocks[:20], seed=8)


@unit_test(skip=WITHOUT_VECTORS)
async def real_reviews(ports: CocotbPorts) -> None:
    _, table, _ = work(ports, 9)
    for vector in vectors("position_bias"):
        await check_scores(ports, *from_vector(vector, ports.config["lanes"], table))

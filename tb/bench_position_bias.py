"""PositionBias against golden.position_bias."""

from typing import Any

import cocotb

from tb.cocotb_ports import start
from tb.position_bias import check_scores, every_place, parts, random_table


def sizes(ports: Any) -> tuple[int, int, int]:
    """Lanes, heads and tokens, whole row tiles, that the unit was made for."""
    lanes, tokens = ports.config["lanes"], ports.config["tokens"]
    return lanes, max(ports.config["bias_heads"], 1), -(-tokens // lanes) * lanes


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5])
async def every_distance(dut: Any, idle: float) -> None:
    ports = await start(dut)
    lanes, heads, tokens = sizes(ports)
    table = random_table(heads, tokens, 1)
    await check_scores(ports, table, every_place(table, lanes, 1), idle=idle, seed=1)


@cocotb.test()
async def corners(dut: Any) -> None:
    ports = await start(dut)
    lanes, heads, tokens = sizes(ports)
    for seed in (2, 3):
        table = random_table(heads, tokens, seed, corners=True)
        blocks = every_place(table, lanes, seed, corners=True)
        await check_scores(ports, table, blocks, seed=seed)


@cocotb.test()
async def tiles_that_end_early(dut: Any) -> None:
    ports = await start(dut)
    lanes, heads, tokens = sizes(ports)
    table = random_table(heads, tokens, 4)
    blocks = parts(every_place(table, lanes, 4), 4)
    await check_scores(ports, table, blocks, idle=0.3, seed=4)


@cocotb.test()
async def scores_without_a_bias(dut: Any) -> None:
    ports = await start(dut)
    lanes, heads, tokens = sizes(ports)
    table = random_table(heads, tokens, 5)
    blocks = every_place(table, lanes, 5)
    await check_scores(ports, table, blocks, biased=False, idle=0.3, seed=5)
    await check_scores(ports, table, blocks[:5], seed=6)


@cocotb.test()
@cocotb.parametrize(cycles=[20, 150])
async def reset_in_the_middle(dut: Any, cycles: int) -> None:
    ports = await start(dut)
    lanes, heads, tokens = sizes(ports)
    table, other = (random_table(heads, tokens, seed) for seed in (7, 8))
    blocks = every_place(table, lanes, 7)
    await ports.interrupt(check_scores(ports, table, blocks), cycles)
    await check_scores(ports, other, blocks[:20], seed=8)

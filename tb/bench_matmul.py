"""The MAC array against golden.matmul."""

from typing import Any

import cocotb

from rtl.interface.config import Config
from tb import matmul
from tb.cocotb_ports import WITHOUT_VECTORS, CocotbPorts, start, vectors


def shape(ports: CocotbPorts) -> tuple[int, int]:
    """N and M."""
    config = Config(**ports.config)
    return config.lanes, config.tile_columns


@cocotb.test()
@cocotb.parametrize(pauses=[0.0, 0.4])
async def tiles(dut: Any, pauses: float) -> None:
    ports = await start(dut)
    lanes, columns = shape(ports)
    lengths = [1, 1, columns, columns, 2, 37, 1, columns + 1, 64, *range(2, 18)]
    given = matmul.random_tiles(lanes, columns, lengths, 1)
    for counts in ([], matmul.random_counts(given, 3)):
        await matmul.check_tiles(ports, given, pauses, none_joined(ports, given), counts)
    if ports.config["precise"]:
        given = matmul.random_tiles(lanes, columns, matmul.WIDE_LENGTHS, 2)
        await matmul.check_tiles(ports, given, pauses, matmul.WIDE_JOINED)


def none_joined(ports: CocotbPorts, tiles: matmul.Tiles) -> list[bool]:
    """What `check_tiles` is given where nothing is joined."""
    return [False] * len(tiles) if ports.config["precise"] else []


@cocotb.test()
async def extremes(dut: Any) -> None:
    ports = await start(dut)
    linear = max(ports.config["hidden"], ports.config["ffn"])
    context = ports.config["tokens"]
    for given in (
        matmul.extreme_tiles(*shape(ports), linear)[2:],
        matmul.extreme_tiles(*shape(ports), context)[:2],
    ):
        await matmul.check_tiles(ports, given, joined=none_joined(ports, given))


@cocotb.test(skip=WITHOUT_VECTORS)
async def real_reviews(dut: Any) -> None:
    ports = await start(dut)
    for vector in vectors("matmul"):
        given = matmul.cut_tiles(vector, *shape(ports))
        await matmul.check_tiles(ports, given, joined=none_joined(ports, given))

"""The MAC array against golden.matmul."""

from typing import Any

import cocotb

from rtl.interface.config import Config
from tb import matmul
from tb.cocotb_ports import WITHOUT_VECTORS, CocotbPorts, start, vectors


def parts_of(ports: CocotbPorts) -> int:
    """Parts of a column."""
    return Config(**ports.config).column_parts


@cocotb.test()
@cocotb.parametrize(pauses=[0.0, 0.4])
async def tiles(dut: Any, pauses: float) -> None:
    ports = await start(dut)
    parts = parts_of(ports)
    lanes = ports.config["lanes"]
    lengths = [1, 1, lanes, lanes, 2, 37, 1, lanes + 1, 64, *range(2, 18)]
    given = matmul.random_tiles(lanes, lengths, 1)
    await matmul.check_tiles(ports, given, lanes, pauses, parts, none_joined(ports, given))
    if ports.config["precise"]:
        given = matmul.random_tiles(lanes, matmul.WIDE_LENGTHS, 2)
        await matmul.check_tiles(ports, given, lanes, pauses, parts, matmul.WIDE_JOINED)


def none_joined(ports: CocotbPorts, tiles: matmul.Tiles) -> list[bool]:
    """What `check_tiles` is given where nothing is joined."""
    return [False] * len(tiles) if ports.config["precise"] else []


@cocotb.test()
async def extremes(dut: Any) -> None:
    ports = await start(dut)
    lanes, longest = ports.config["lanes"], max(ports.config["hidden"], ports.config["ffn"])
    linear, context = longest, ports.config["tokens"]
    for given in (
        matmul.extreme_tiles(lanes, linear)[2:],
        matmul.extreme_tiles(lanes, context)[:2],
    ):
        joined = none_joined(ports, given)
        await matmul.check_tiles(ports, given, lanes, parts=parts_of(ports), joined=joined)


@cocotb.test(skip=WITHOUT_VECTORS)
async def real_reviews(dut: Any) -> None:
    ports = await start(dut)
    lanes = ports.config["lanes"]
    for vector in vectors("matmul"):
        given = matmul.cut_tiles(vector, lanes)
        joined = none_joined(ports, given)
        await matmul.check_tiles(ports, given, lanes, parts=parts_of(ports), joined=joined)

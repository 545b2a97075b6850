"""The MAC array against golden.matmul."""

from typing import Any

from rtl.interface.config import Config
from tb import matmul
from tb.cocotb_ports import WITHOUT_VECTORS, CocotbPorts, unit_test, vectors


def shape(ports: CocotbPorts) -> tuple[int, int]:
    """N and M."""
    config = Config(**ports.config)
    return config.lanes, config.tile_columns


async def check(ports: CocotbPorts, tiles: matmul.Tiles, **settings: Any) -> None:
    """`check_tiles` of tiles of which none is joined to another."""
    joined = [False] * len(tiles) if ports.config["precise"] else []
    await matmul.check_tiles(ports, tiles, joined=joined, **settings)


@unit_test(pauses=[0.0, 0.4])
async def tiles(ports: CocotbPorts, pauses: float) -> None:
    lanes, columns = shape(ports)
    lengths = [1, 1, columns, columns, 2, 37, 1, columns + 1, 64, *range(2, 18)]
    given = matmul.random_tiles(lanes, columns, lengths, 1)
    for counts in ([], matmul.random_counts(given, 3)):
        await check(ports, given, pauses=pauses, counts=counts)
    if ports.config["precise"]:
        given = matmul.random_tiles(lanes, columns, matmul.WIDE_LENGTHS, 2)
        await matmul.check_tiles(ports, given, pauses, matmul.WIDE_JOINED)


@unit_test()
async def extremes(ports: CocotbPorts) -> None:
    linear = max(ports.config["hidden"], ports.config["ffn"])
    await check(ports, matmul.extreme_tiles(*shape(ports), linear)[2:])
    await check(ports, matmul.extreme_tiles(*shape(ports), ports.config["tokens"])[:2])


@unit_test(skip=WITHOUT_VECTORS)
async def real_reviews(ports: CocotbPorts) -> None:
    for vector in vectors("matmul"):
        await check(ports, matmul.cut_tiles(vector, *shape(ports)))

"""Requantize against golden.requantize."""

from tb import requantize
from tb.cocotb_ports import WITHOUT_VECTORS, CocotbPorts, unit_test, vectors
from tb.pipelined import check_stream


@unit_test()
async def corners(ports: CocotbPorts) -> None:
    await check_stream(ports, *requantize.corners(ports.config["lanes"]))


@unit_test(seed=[1, 2])
async def random(ports: CocotbPorts, seed: int) -> None:
    await check_stream(ports, *requantize.random(ports.config["lanes"], 500, seed))


@unit_test(skip=WITHOUT_VECTORS)
async def real_reviews(ports: CocotbPorts) -> None:
    await requantize.check_vectors(ports, ports.config["lanes"], vectors("requantize"))

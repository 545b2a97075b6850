"""Rsqrt against golden.rsqrt."""

from tb import rsqrt
from tb.cocotb_ports import NOT_EXHAUSTIVE, WITHOUT_VECTORS, CocotbPorts, unit_test, vectors
from tb.pipelined import check_stream, check_vectors


@unit_test()
async def equals_golden(ports: CocotbPorts) -> None:
    await check_stream(ports, *rsqrt.cases(1))


@unit_test(skip=WITHOUT_VECTORS)
async def real_reviews(ports: CocotbPorts) -> None:
    await check_vectors(ports, vectors("rsqrt"), "v")


@unit_test(skip=NOT_EXHAUSTIVE)
async def every_mantissa(ports: CocotbPorts) -> None:
    await check_stream(ports, *rsqrt.every_mantissa())

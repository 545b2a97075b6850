"""Reciprocal against golden.reciprocal."""

from tb import reciprocal
from tb.cocotb_ports import NOT_EXHAUSTIVE, WITHOUT_VECTORS, CocotbPorts, unit_test, vectors
from tb.pipelined import check_stream, check_vectors


@unit_test()
async def equals_golden(ports: CocotbPorts) -> None:
    await check_stream(ports, *reciprocal.cases(1))


@unit_test(skip=WITHOUT_VECTORS)
async def real_reviews(ports: CocotbPorts) -> None:
    await check_vectors(ports, vectors("reciprocal"), "s")


@unit_test(skip=NOT_EXHAUSTIVE)
async def every_value(ports: CocotbPorts) -> None:
    await check_stream(ports, *reciprocal.every_value())

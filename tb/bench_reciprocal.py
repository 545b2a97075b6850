"""Reciprocal against golden.reciprocal."""

from typing import Any

import cocotb

from tb import reciprocal
from tb.cocotb_ports import NOT_EXHAUSTIVE, WITHOUT_VECTORS, start, vectors
from tb.pipelined import check_stream


@cocotb.test()
async def equals_golden(dut: Any) -> None:
    await check_stream(await start(dut), *reciprocal.cases(1))


@cocotb.test(skip=WITHOUT_VECTORS)
async def real_reviews(dut: Any) -> None:
    ports = await start(dut)
    for vector in vectors("reciprocal"):
        expected = {name: vector.outputs[name].values for name in "re"}
        await check_stream(ports, {"i": vector.inputs["s"].values}, expected)


@cocotb.test(skip=NOT_EXHAUSTIVE)
async def every_value(dut: Any) -> None:
    await check_stream(await start(dut), *reciprocal.every_value())

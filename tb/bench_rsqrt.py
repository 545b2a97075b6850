"""Rsqrt against golden.rsqrt."""

from typing import Any

import cocotb

from tb import rsqrt
from tb.cocotb_ports import NOT_EXHAUSTIVE, WITHOUT_VECTORS, start, vectors
from tb.pipelined import check_stream


@cocotb.test()
async def equals_golden(dut: Any) -> None:
    await check_stream(await start(dut), *rsqrt.cases(1))


@cocotb.test(skip=WITHOUT_VECTORS)
async def real_reviews(dut: Any) -> None:
    ports = await start(dut)
    for vector in vectors("rsqrt"):
        expected = {name: vector.outputs[name].values for name in "re"}
        await check_stream(ports, {"i": vector.inputs["v"].values}, expected)


@cocotb.test(skip=NOT_EXHAUSTIVE)
async def every_mantissa(dut: Any) -> None:
    await check_stream(await start(dut), *rsqrt.every_mantissa())

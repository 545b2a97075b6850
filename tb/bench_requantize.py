"""Requantize against golden.requantize."""

from typing import Any

import cocotb

from tb import requantize
from tb.cocotb_ports import WITHOUT_VECTORS, start, vectors
from tb.pipelined import check_stream


@cocotb.test()
async def corners(dut: Any) -> None:
    ports = await start(dut)
    await check_stream(ports, *requantize.corners(ports.config["lanes"]))


@cocotb.test()
@cocotb.parametrize(seed=[1, 2])
async def random(dut: Any, seed: int) -> None:
    ports = await start(dut)
    await check_stream(ports, *requantize.random(ports.config["lanes"], 500, seed))


@cocotb.test(skip=WITHOUT_VECTORS)
async def real_reviews(dut: Any) -> None:
    ports = await start(dut)
    await requantize.check_vectors(ports, ports.config["lanes"], vectors("requantize"))

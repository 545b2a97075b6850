"""ActivationTable against golden.activation."""

from typing import Any

import cocotb

from tb.activation import check_activation, check_vectors, random_table
from tb.cocotb_ports import WITHOUT_VECTORS, start, vectors


@cocotb.test()
async def all_codes_in_all_lanes(dut: Any) -> None:
    ports = await start(dut)
    await check_activation(ports, ports.config["lanes"], random_table(1))


@cocotb.test()
async def a_table_rewritten(dut: Any) -> None:
    ports = await start(dut)
    for seed in (2, 3):
        await check_activation(ports, ports.config["lanes"], random_table(seed))


@cocotb.test(skip=WITHOUT_VECTORS)
async def real_reviews(dut: Any) -> None:
    ports = await start(dut)
    await check_vectors(ports, ports.config["lanes"], vectors("activation"))

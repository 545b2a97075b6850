"""Rsqrt against golden.rsqrt."""

from typing import Any

import cocotb

from tb import rsqrt
from tb.cocotb_ports import start
from tb.pipelined import check_stream


@cocotb.test()
async def equals_golden(dut: Any) -> None:
    await check_stream(await start(dut), *rsqrt.cases(1))

"""Reciprocal against golden.reciprocal."""

from typing import Any

import cocotb

from tb import reciprocal
from tb.cocotb_ports import start
from tb.pipelined import check_stream


@cocotb.test()
async def equals_golden(dut: Any) -> None:
    await check_stream(await start(dut), *reciprocal.cases(1))

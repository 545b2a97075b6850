"""The accelerator against golden.encoder: every named intermediate, logits, errors and resets.

BERT2RTL_CASE names a file of `tb.case.write_case`; without it small random models are played.
"""

import os
from typing import Any

import cocotb
from cocotb.triggers import FallingEdge

from rtl.interface.command import MAGIC, VERSION
from rtl.interface.config import Config
from tb.accelerator import AcceleratorMachine
from tb.cocotb_ports import start
from tb.scenarios import small_case
from tb.session import check_case, check_case_file


async def machine_of(dut: Any) -> AcceleratorMachine:
    """Clock and reset running, and the machine."""
    ports = await start(dut)
    await FallingEdge(dut.clk)
    machine = AcceleratorMachine(ports)
    limits = {name: ports.config[name] for name in ("lanes", "tokens", "hidden", "ffn", "labels")}
    limits["columns"] = Config(**ports.config).tile_columns
    await machine.expect(id=MAGIC, version=VERSION, status=0, cycles=0, **limits)
    return machine


@cocotb.test(skip="BERT2RTL_CASE" not in os.environ)
async def case(dut: Any) -> None:
    await check_case_file(await machine_of(dut))


@cocotb.test(skip="BERT2RTL_CASE" in os.environ)
@cocotb.parametrize(stalls=[0.0, 0.4])
async def small(dut: Any, stalls: float) -> None:
    machine = await machine_of(dut)
    config = Config(**machine.sheet["configuration"])
    await check_case(machine, small_case(config, idle=stalls, stall=stalls))

"""The accelerator against golden.encoder: every named intermediate, logits, errors and resets.

BERT2RTL_CASE names a file of `tb.case.write_case`; without it small random models are played.
"""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import FallingEdge

from rtl.interface.command import MAGIC, VERSION
from rtl.interface.config import Config
from tb.accelerator import AcceleratorMachine
from tb.case import read_case
from tb.cocotb_ports import start
from tb.compare import Mismatch
from tb.scenarios import small_case
from tb.session import check_case


async def machine_of(dut: Any) -> AcceleratorMachine:
    """Clock and reset running, and the machine."""
    ports = await start(dut)
    await FallingEdge(dut.clk)
    machine = AcceleratorMachine(ports)
    limits = {name: ports.config[name] for name in ("lanes", "tokens", "hidden", "ffn", "labels")}
    limits["columns"] = Config(**ports.config).tile_columns
    due = {"id": MAGIC, "version": VERSION, "status": 0, "cycles": 0} | limits
    found = {name: await machine.read(name) for name in due}
    if found != due:
        raise Mismatch(f"the registers read {found}, not {due}")
    return machine


@cocotb.test(skip="BERT2RTL_CASE" not in os.environ)
async def case(dut: Any) -> None:
    content = Path(os.environ["BERT2RTL_CASE"]).read_bytes()
    await check_case(await machine_of(dut), read_case(content), sha256(content).hexdigest())


@cocotb.test(skip="BERT2RTL_CASE" in os.environ)
@cocotb.parametrize(stalls=[0.0, 0.4])
async def small(dut: Any, stalls: float) -> None:
    machine = await machine_of(dut)
    config = Config(**machine.sheet["configuration"])
    await check_case(machine, small_case(config, idle=stalls, stall=stalls))

"""The accelerator in cocotb: plays the case of sim/accelerator.py and records what it shows."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge

from rtl.interface.command import MAGIC, VERSION
from rtl.interface.config import Config
from tb.accelerator import AcceleratorMachine
from tb.case import read_case, write
from tb.cocotb_ports import start
from tb.compare import Mismatch
from tb.session import Session


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


@cocotb.test()
async def case(dut: Any) -> None:
    """The case in the file BERT2RTL_CASE; what it shows goes into the file BERT2RTL_SEEN.

    SHA-256 of the case is in it, and so says which case it answers.
    """
    content = Path(os.environ["BERT2RTL_CASE"]).read_bytes()
    inferences, around = read_case(content)
    seen = await Session(await machine_of(dut), around).play(inferences)
    arrays: dict[str, np.ndarray] = {}
    for place, one in enumerate(seen):
        arrays |= {f"{place}.{name}": array for name, array in one.arrays.items()}
    facts = {"case": sha256(content).hexdigest(), "inferences": [one.facts for one in seen]}
    write(Path(os.environ["BERT2RTL_SEEN"]), facts, arrays)

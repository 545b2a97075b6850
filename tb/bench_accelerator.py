"""The accelerator against golden.encoder: every named intermediate, logits, errors and resets.

CASE names a file of `tb.case.write_case`; without it small random models are played.
"""

import os
from typing import Any

import cocotb
from cocotb.triggers import FallingEdge

from rtl.control.axi import ADDRESS, OKAY
from rtl.interface.config import Config
from rtl.interface.operation import Error
from tb.cocotb_ports import start
from tb.compare import Mismatch
from tb.scenarios import small_case
from tb.session import check_case, check_case_file
from tb.streams import Pins
from tb.trace import CAUSES

START, ABORT = 1, 2


class AcceleratorMachine:
    """`tb.session.Machine` of the accelerator."""

    def __init__(self, ports: Any) -> None:
        self.ports, self.dut, self.sheet = ports, ports.dut, ports.sheet
        self.model = self._pins("s_axis_model", last=True)
        self.tokens = self._pins("s_axis_tokens", last=True)
        self.result = self._pins("m_axis_logits", last=True)
        self.request: Pins | None = self._pins("m_axis_request")
        self.rows: Pins | None = self._pins("s_axis_rows", last=True)
        self.activations: Pins | None = None
        self.ended = self.dut.interrupt

    def _pins(self, name: str, *, last: bool = False) -> Pins:
        data, valid, ready = (
            getattr(self.dut, f"{name}_{pin}") for pin in ("tdata", "tvalid", "tready")
        )
        end = getattr(self.dut, f"{name}_tlast") if last else None
        return Pins(name, data, valid, ready, end, self.sheet["ports"][f"{name}_tdata"]["width"])

    async def reset(self) -> None:
        await self.ports.reset()

    async def write(self, name: str, value: int) -> int:
        """Write a register; returns the response, in the cycle in which it comes."""
        ports = self.ports
        for pin, given in (("awaddr", ADDRESS[name]), ("wdata", value), ("wstrb", 15)):
            ports.set(f"s_axi_{pin}", given)
        ports.set("s_axi_awvalid", 1)
        ports.set("s_axi_wvalid", 1)
        await ports.settle()
        while not (ports.get("s_axi_awready") and ports.get("s_axi_wready")):
            await ports.tick()
            await ports.settle()
        await ports.tick()
        ports.set("s_axi_awvalid", 0)
        ports.set("s_axi_wvalid", 0)
        ports.set("s_axi_bready", 1)  # and stays so: responses are taken as they come
        while not ports.get("s_axi_bvalid"):
            await ports.tick()
        return int(ports.get("s_axi_bresp"))

    async def read(self, name: str) -> int:
        """Read a register."""
        ports = self.ports
        ports.set("s_axi_araddr", ADDRESS[name])
        ports.set("s_axi_arvalid", 1)
        await ports.settle()
        while not ports.get("s_axi_arready"):
            await ports.tick()
            await ports.settle()
        await ports.tick()
        ports.set("s_axi_arvalid", 0)
        ports.set("s_axi_rready", 1)
        while not ports.get("s_axi_rvalid"):
            await ports.tick()
        value, response = ports.get("s_axi_rdata"), ports.get("s_axi_rresp")
        await ports.tick()
        ports.set("s_axi_rready", 0)
        if response != OKAY:
            raise Mismatch(f"reading {name} was answered with {response}")
        return int(value)

    async def start(self) -> None:
        await self.write("control", START)

    async def abort(self) -> None:
        await self.write("control", ABORT)

    async def outcome(self) -> tuple[Error, dict[str, Any]]:
        status = await self.read("status")
        if status & 3 != 2:
            raise Mismatch(f"the status is {status:#x} after the end: bit 1 alone is to be set")
        counters: dict[str, Any] = {name: await self.read(name) for name in ("cycles", "active")}
        counters["stalls"] = {cause: await self.read(f"stall_{cause}") for cause in CAUSES}
        counted = counters["active"] + sum(counters["stalls"].values())
        if counted > counters["cycles"] + 1:
            raise Mismatch(f"{counted} active and stalled cycles of {counters['cycles']}")
        return Error(status >> 8 & 15), counters


async def machine_of(dut: Any) -> AcceleratorMachine:
    """Clock and reset running, and the machine."""
    ports = await start(dut)
    await FallingEdge(dut.clk)
    return AcceleratorMachine(ports)


@cocotb.test(skip="CASE" not in os.environ)
async def case(dut: Any) -> None:
    await check_case_file(await machine_of(dut))


@cocotb.test(skip="CASE" in os.environ)
@cocotb.parametrize(stalls=[0.0, 0.4])
async def small(dut: Any, stalls: float) -> None:
    machine = await machine_of(dut)
    config = Config(**machine.sheet["configuration"])
    await check_case(machine, small_case(config, idle=stalls, stall=stalls))

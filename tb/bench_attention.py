"""The attention unit against golden.attention: q, k, v, scores, max, p, sum, context.

CASE names a file of `tb.case.write_case`; without it small random layers are played.
"""

import os
from typing import Any

import cocotb
from cocotb.triggers import FallingEdge

from rtl.interface.config import Config
from rtl.interface.operation import Error
from tb.cocotb_ports import start
from tb.scenarios import small_attention_case
from tb.session import check_case, check_case_file
from tb.streams import Pins


class AttentionMachine:
    """`tb.session.Machine` of the attention unit."""

    def __init__(self, ports: Any) -> None:
        self.ports, self.dut, self.sheet = ports, ports.dut, ports.sheet
        self.model, self.tokens = self._pins("model"), self._pins("tokens")
        self.activations: Pins | None = self._pins("i")
        self.result = self._pins("o")
        self.request: Pins | None = None
        self.rows: Pins | None = None
        self.ended = self.dut.done

    def _pins(self, name: str) -> Pins:
        payload, valid, ready = (
            getattr(self.dut, f"{name}__{pin}") for pin in ("payload", "valid", "ready")
        )
        width = self.sheet["ports"][f"{name}__payload"]["width"] - 1
        return Pins(name, payload, valid, ready, None, width)

    async def reset(self) -> None:
        await self.ports.reset()

    async def _pulse(self, name: str) -> None:
        self.ports.set(name, 1)
        await self.ports.tick()
        self.ports.set(name, 0)

    async def start(self) -> None:
        await self._pulse("start")

    async def abort(self) -> None:
        await self._pulse("abort")

    async def outcome(self) -> tuple[Error, dict[str, Any]]:
        get = self.ports.get
        await self.ports.tick()
        return Error(get("error")), {"cycles": get("cycles"), "active": get("active_cycles")}


async def machine_of(dut: Any) -> AttentionMachine:
    """Clock and reset running, and the machine."""
    ports = await start(dut)
    await FallingEdge(dut.clk)
    return AttentionMachine(ports)


@cocotb.test(skip="CASE" not in os.environ)
async def case(dut: Any) -> None:
    await check_case_file(await machine_of(dut))


@cocotb.test(skip="CASE" in os.environ)
@cocotb.parametrize(stalls=[0.0, 0.4])
async def small(dut: Any, stalls: float) -> None:
    machine = await machine_of(dut)
    config = Config(**machine.sheet["configuration"])
    await check_case(machine, small_attention_case(config, idle=stalls, stall=stalls))

"""The accelerator's ports in cocotb: its streams, and how it is started, ended and asked."""

from __future__ import annotations

from typing import Any

from rtl.control.axi import OKAY
from rtl.interface.operation import Error
from rtl.interface.registers import ADDRESS
from tb.compare import Mismatch
from tb.streams import Pins
from tb.trace import CAUSES

START, ABORT = 1, 2
INPUTS, OUTPUTS = (
    ("s_axis_model", "s_axis_tokens", "s_axis_rows"),
    ("m_axis_logits", "m_axis_request"),
)


class AcceleratorMachine:
    """The accelerator.

    model, tokens, result, request, rows
        Pins of the streams.
    ended
        Goes high when the inference has ended.
    """

    def __init__(self, ports: Any) -> None:
        self.ports, self.dut, self.sheet = ports, ports.dut, ports.sheet
        self.model, self.tokens, self.rows = map(self._pins, INPUTS)
        self.result, self.request = map(self._pins, OUTPUTS)
        self.ended = self.dut.interrupt

    def _pins(self, name: str) -> Pins:
        ports = self.sheet["ports"]
        data, valid, ready, last = (
            getattr(self.dut, port) if (port := f"{name}_t{pin}") in ports else None
            for pin in ("data", "valid", "ready", "last")
        )
        return Pins(name, data, valid, ready, last, ports[f"{name}_tdata"]["width"])

    async def reset(self) -> None:
        for pin in ("awvalid", "wvalid", "arvalid"):
            self.ports.set(f"s_axi_{pin}", 0)
        await self.ports.reset()

    async def _access(self, answer: str, **channels: dict[str, int]) -> None:
        """Offer a word on each of these channels until it is taken, and wait for the answer."""
        ports = self.ports
        for channel, pins in channels.items():
            for pin, value in (pins | {f"{channel}valid": 1, f"{answer}ready": 1}).items():
                ports.set(f"s_axi_{pin}", value)
        while channels:
            await ports.settle()
            taken = [channel for channel in channels if ports.get(f"s_axi_{channel}ready")]
            await ports.tick()
            for channel in taken:
                ports.set(f"s_axi_{channel}valid", 0)
                del channels[channel]
        while not ports.get(f"s_axi_{answer}valid"):
            await ports.tick()

    async def write(self, name: str, value: int) -> None:
        """Write a register, and return in the cycle in which the response comes."""
        await self._access("b", aw={"awaddr": ADDRESS[name]}, w={"wdata": value, "wstrb": 15})
        if (response := self.ports.get("s_axi_bresp")) != OKAY:
            raise Mismatch(f"writing {value} to {name} was answered with {response}")

    async def read(self, name: str) -> int:
        """Read a register."""
        await self._access("r", ar={"araddr": ADDRESS[name]})
        if (response := self.ports.get("s_axi_rresp")) != OKAY:
            raise Mismatch(f"reading {name} was answered with {response}")
        return int(self.ports.get("s_axi_rdata"))

    async def outcome(self) -> tuple[int, list[int]]:
        """The status after the end, and the counters: cycles, active and the stalls."""
        status = await self.read("status")
        if status & 3 != 2:
            raise Mismatch(f"the status is {status:#x} after the end: bit 1 alone is to be set")
        stalls = [f"stall_{cause}" for cause in CAUSES]
        cycles, *counted = [await self.read(name) for name in ("cycles", "active", *stalls)]
        good = status >> 8 & 15 == Error.NONE
        if sum(counted) > cycles + 1 or (good and sum(counted) != cycles):
            raise Mismatch(f"{sum(counted)} active and stalled cycles of {cycles}")
        return status, [cycles, *counted]

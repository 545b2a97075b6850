"""The accelerator's ports in cocotb: its streams, and how it is started, ended and asked."""

from __future__ import annotations

from random import Random
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
        self.random = Random(1)
        self.response: int | None = None

    def _pins(self, name: str) -> Pins:
        ports = self.sheet["ports"]
        data, valid, ready, last = (
            getattr(self.dut, port) if (port := f"{name}_t{pin}") in ports else None
            for pin in ("data", "valid", "ready", "last")
        )
        return Pins(name, data, valid, ready, last, ports[f"{name}_tdata"]["width"])

    async def reset(self) -> None:
        for pin in ("awvalid", "wvalid", "arvalid", "bready", "rready"):
            self.ports.set(f"s_axi_{pin}", 0)
        self.response = None
        await self.ports.reset()

    async def _rest(self) -> None:
        """Sometimes some cycles, with noise on what is not offered."""
        for _ in range(self.random.choice((0, 0, 1, 3))):
            self._noise()
            await self.ports.tick()

    def _noise(self) -> None:
        for pin, bits in (("awaddr", 7), ("wdata", 32), ("wstrb", 4), ("araddr", 7)):
            self.ports.set(f"s_axi_{pin}", self.random.getrandbits(bits))

    async def _take_response(self, late: bool) -> None:
        """Take the response of the write before, which must have stayed; there may be none."""
        ports, expected = self.ports, self.response
        if expected is None:
            return
        self.response = None
        if late:
            await self._rest()
        found = int(ports.get("s_axi_bresp")) if ports.get("s_axi_bvalid") else None
        if found != expected:
            raise Mismatch(f"the response of a write was {expected}, and became {found}")
        ports.set("s_axi_bready", 1)
        await ports.tick()
        ports.set("s_axi_bready", 0)
        if ports.get("s_axi_bvalid"):
            raise Mismatch("the response of a write comes twice")

    async def write(self, name: str, value: int, *, at_once: bool = False) -> None:
        """Write a register, and return in the cycle in which the response comes.

        It is taken before the next write. Address and data come in any order, unless `at_once`.
        """
        ports = self.ports
        await self._take_response(late=not at_once)
        left = {"aw": {"awaddr": ADDRESS[name]}, "w": {"wdata": value, "wstrb": 15}}
        offered: list[str] = []
        while left:
            self._noise()
            late = (c for c in left if c not in offered)
            offered += [c for c in late if at_once or self.random.random() < 0.7]
            for channel in offered:
                for pin, given in left[channel].items():
                    ports.set(f"s_axi_{pin}", given)
                ports.set(f"s_axi_{channel}valid", 1)
            await ports.settle()
            taken = [channel for channel in offered if ports.get(f"s_axi_{channel}ready")]
            if ports.get("s_axi_bvalid"):
                raise Mismatch(f"the write of {name} is answered before it was offered")
            await ports.tick()
            for channel in taken:
                ports.set(f"s_axi_{channel}valid", 0)
                offered.remove(channel)
                del left[channel]
        self._noise()
        while not ports.get("s_axi_bvalid"):
            await ports.tick()
        self.response = int(ports.get("s_axi_bresp"))
        if self.response != OKAY:
            raise Mismatch(f"writing {value} to {name} was answered with {self.response}")

    async def read(self, name: str) -> int:
        """Read a register."""
        ports = self.ports
        self._noise()
        ports.set("s_axi_araddr", ADDRESS[name])
        ports.set("s_axi_arvalid", 1)
        await ports.settle()
        while not ports.get("s_axi_arready"):
            await ports.tick()
            await ports.settle()
        await ports.tick()
        ports.set("s_axi_arvalid", 0)
        while not ports.get("s_axi_rvalid"):
            await ports.tick()
        value, response = ports.get("s_axi_rdata"), ports.get("s_axi_rresp")
        await self._rest()
        if not ports.get("s_axi_rvalid") or value != ports.get("s_axi_rdata"):
            raise Mismatch(f"what {name} reads was withdrawn or changed")
        ports.set("s_axi_rready", 1)
        await ports.tick()
        ports.set("s_axi_rready", 0)
        if response != OKAY:
            raise Mismatch(f"reading {name} was answered with {response}")
        return int(value)

    async def outcome(self) -> tuple[Error, dict[str, Any]]:
        """The error code and the counters: cycles, active and stalls."""
        status = await self.read("status")
        if status & 3 != 2:
            raise Mismatch(f"the status is {status:#x} after the end: bit 1 alone is to be set")
        counters: dict[str, Any] = {name: await self.read(name) for name in ("cycles", "active")}
        counters["stalls"] = {cause: await self.read(f"stall_{cause}") for cause in CAUSES}
        counted = counters["active"] + sum(counters["stalls"].values())
        code, cycles = Error(status >> 8 & 15), counters["cycles"]
        if counted > cycles + 1 or (code is Error.NONE and counted != cycles):
            raise Mismatch(f"{counted} active and stalled cycles of {cycles}")
        return code, counters

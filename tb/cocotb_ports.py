"""Ports of the generated Verilog in cocotb, on any simulator."""

import json
import os
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, Timer

from tb.cut import Vector
from tb.packing import pack, unpack
from tb.ports import UnitPorts
from tb.vectors import read

CLOCK_NS = 10

#: Benches skip their tests on real reviews, and on all values of a large range, unless asked.
WITHOUT_VECTORS = "BERT2RTL_VECTORS" not in os.environ
NOT_EXHAUSTIVE = "BERT2RTL_EXHAUSTIVE" not in os.environ


class CocotbPorts:
    """`tb.ports.Ports` of a Verilog module; inputs change at the falling edge of its clock.

    The layout of the ports comes from the unit's data sheet (`rtl.generate` writes it).
    """

    def __init__(self, dut: Any, sheet: dict[str, Any]) -> None:
        self.dut, self.sheet = dut, sheet
        self.config: dict[str, Any] = sheet["configuration"]
        self.latency: int = sheet.get("latency", 0)
        self._ports = sheet["ports"]

    def set(self, name: str, value: int | Sequence[int]) -> None:
        facts, handle = self._ports[name], getattr(self.dut, name)
        if "length" in facts:
            assert isinstance(value, Sequence), name
            assert len(value) == facts["length"], name
            handle.value = pack(value, facts["element"]["width"])
        elif facts["width"]:
            assert isinstance(value, int), name
            handle.value = pack([value], facts["width"])

    def get(self, name: str) -> Any:
        facts = self._ports[name]
        if facts["width"] == 0:
            return 0
        word = int(getattr(self.dut, name).value)
        if "length" in facts:
            element = facts["element"]
            return unpack(word, element["width"], facts["length"], element["signed"])
        return unpack(word, facts["width"], 1, facts.get("signed", False))[0]

    async def settle(self) -> None:
        await Timer(1, "ns")

    async def tick(self) -> None:
        await FallingEdge(self.dut.clk)

    async def reset(self) -> None:
        """Hold the reset for a cycle."""
        self.dut.rst.value = 1
        await self.tick()
        self.dut.rst.value = 0

    async def interrupt(self, exercise: Coroutine[Any, Any, Any], cycles: int) -> None:
        """Run `exercise` for some cycles, abandon it and reset."""
        task = cocotb.start_soon(exercise)
        for _ in range(cycles):
            await self.tick()
        task.cancel()
        for name, facts in self._ports.items():
            if facts["direction"] == "input" and name not in ("clk", "rst") and facts["width"]:
                getattr(self.dut, name).value = 0
        await self.reset()


async def start(dut: Any) -> Any:
    """Start the clock, set all inputs to zero, reset, and return the ports: a `UnitPorts`.

    A bench may be given ports that need no simulator in place of a handle: these are reset.
    """
    if isinstance(dut, UnitPorts):
        await dut.reset()
        return dut
    ports = CocotbPorts(dut, json.loads(Path(os.environ["BERT2RTL_UNIT_SHEET"]).read_text()))
    for name, facts in ports.sheet["ports"].items():
        if facts["direction"] == "input" and name != "clk" and facts["width"]:
            getattr(dut, name).value = 0
    Clock(dut.clk, CLOCK_NS, "ns", impl="gpi").start()
    await ports.tick()
    await ports.reset()
    return ports


def vectors(unit: str) -> list[Vector]:
    """Vectors of real reviews (`tb.vectors`) for the unit, in the folder BERT2RTL_VECTORS."""
    return list(read(Path(os.environ["BERT2RTL_VECTORS"]), unit))

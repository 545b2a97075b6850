"""Ports of the generated Verilog in cocotb, on any simulator."""

import json
import os
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, Timer

from tb.cut import Vector
from tb.packing import pack, unpack
from tb.record import Recorder, layout
from tb.vectors import read

CLOCK_NS = 10
Exercise = Callable[..., Coroutine[Any, Any, None]]

#: The file that gets a record of the pins (tb.record), None without one.
RECORD = os.environ.get("BERT2RTL_RECORD")

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
        self._record = Recorder(Path(RECORD), self._ports) if RECORD else None

    def set(self, name: str, value: int | Sequence[int]) -> None:
        facts = self._ports[name]
        values = value if isinstance(value, Sequence) else [value]
        assert isinstance(value, Sequence) == ("length" in facts), name
        assert len(values) == facts.get("length", 1), name
        if facts["width"]:
            self._give(name, pack(values, facts.get("element", facts)["width"]))

    def _give(self, name: str, word: int) -> None:
        getattr(self.dut, name).value = word
        if self._record is not None:
            self._record.given[name] = word

    def get(self, name: str) -> Any:
        facts = self._ports[name]
        if facts["width"] == 0:
            return 0
        word = int(getattr(self.dut, name).value)
        if self._record is not None:
            self._record.read[name] = word
        element, length = facts.get("element", facts), facts.get("length", 1)
        values = unpack(word, element["width"], length, element.get("signed", False))
        return values if "length" in facts else values[0]

    async def settle(self) -> None:
        await Timer(1, "ns")

    async def tick(self) -> None:
        if self._record is not None:
            self._record.cycle()
        await FallingEdge(self.dut.clk)

    async def reset(self) -> None:
        """Hold the reset for a cycle."""
        self._give("rst", 1)
        await self.tick()
        self._give("rst", 0)

    async def interrupt(self, exercise: Coroutine[Any, Any, Any], cycles: int) -> None:
        """Run `exercise` for some cycles, abandon it and reset."""
        task = cocotb.start_soon(exercise)
        for _ in range(cycles):  # which the exercise records
            await FallingEdge(self.dut.clk)
        task.cancel()
        self.clear()
        await self.reset()

    def clear(self) -> None:
        """All inputs are zero from now on."""
        for name in layout(self._ports)[0]:
            self._give(name, 0)


async def start(dut: Any) -> CocotbPorts:
    """Start the clock, set all inputs to zero, reset, and return the ports."""
    ports = CocotbPorts(dut, json.loads(Path(os.environ["BERT2RTL_UNIT_SHEET"]).read_text()))
    ports.clear()
    Clock(dut.clk, CLOCK_NS, "ns", impl="gpi").start()
    await ports.tick()
    await ports.reset()
    return ports


def unit_test(*, skip: bool = False, **parameters: list[Any]) -> Callable[[Exercise], Any]:
    """A test of a bench: what it does with the ports that `start` gives, for all parameters."""

    def test(exercise: Exercise) -> Any:
        @wraps(exercise)
        async def started(dut: Any, **given: Any) -> None:
            await exercise(await start(dut), **given)

        varied = cocotb.parametrize(**parameters)(started) if parameters else started
        return cocotb.test(skip=skip)(varied)

    return test


def vectors(unit: str) -> list[Vector]:
    """Vectors of real reviews (`tb.vectors`) for the unit, in the folder BERT2RTL_VECTORS."""
    return list(read(Path(os.environ["BERT2RTL_VECTORS"]), unit))

"""The trace ports of the accelerator: every write recorded."""

from __future__ import annotations

from itertools import starmap
from typing import Any

from cocotb.triggers import FallingEdge, RisingEdge, ValueChange

from tb.compare import Recorded
from tb.streams import now
from tb.trace import CHANGING, TRACE_PORTS


class Monitor:
    """Records what the trace ports show.

    sheet
        Data sheet: the layouts of the ports.
    """

    def __init__(self, dut: Any, sheet: dict[str, Any]) -> None:
        self.dut, self.ports = dut, sheet["ports"]
        self.recorded: dict[str, Recorded] = {}
        #: (cycle, value) of every change of these ports; -1 for one with an X.
        self.changes: dict[str, list[tuple[int, int]]] = {}
        self.clear()

    def clear(self) -> None:
        """Forget everything: the next inference begins."""
        self.recorded = {}
        for name in (name for _, _, names in TRACE_PORTS for name in names):
            facts = self.ports[f"trace_{name}"]
            element, length = facts.get("element", facts), facts.get("length", 1)
            self.recorded[name] = Recorded(element["width"], element["signed"], length)
        self.changes = {name: [(now(), self._value(name))] for name in CHANGING}

    @property
    def written(self) -> int:
        """Writes so far, of all ports."""
        return sum(len(port.word) for port in self.recorded.values())

    def watch(self) -> list[Any]:
        """The coroutines that record."""
        return [*starmap(self._group, TRACE_PORTS), *map(self._changes, self.changes)]

    async def _group(self, name: str, where: str | None, names: tuple[str, ...]) -> None:
        dut = self.dut
        enable = getattr(dut, name)
        address = None if where is None or not self.ports[where]["width"] else getattr(dut, where)
        handles = [(part, getattr(dut, f"trace_{part}")) for part in names]
        while True:
            await RisingEdge(enable)
            await FallingEdge(dut.clk)
            while enable.value:
                cycle, at = now(), 0 if address is None else int(address.value)
                for part, handle in handles:
                    recorded = self.recorded[part]
                    recorded.cycle.append(cycle)
                    recorded.address.append(at)
                    word = int(handle.value)
                    signed = recorded.length == 1 and word < 0
                    recorded.word.append(word + (1 << recorded.width) if signed else word)
                await FallingEdge(dut.clk)

    async def _changes(self, name: str) -> None:
        handle = getattr(self.dut, f"trace_{name}")
        while True:
            await ValueChange(handle)
            self.changes[name].append((now(), self._value(name)))

    def _value(self, name: str) -> int:
        value = getattr(self.dut, f"trace_{name}").value
        return int(value) if value.is_resolvable else -1

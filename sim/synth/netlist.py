"""A flat netlist of Yosys' JSON that the passes of this folder change."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

Bit = int | str  # of a connection in Yosys' JSON: a net, or a constant "0", "1", "x" or "z"


class Netlist:
    """One flat module of Yosys' JSON, and who drives and reads each of its nets."""

    def __init__(self, module: dict[str, Any]) -> None:
        self.cells: dict[str, Any] = module["cells"]
        self._driver: dict[Bit, tuple[str, str]] = {}
        self._readers: dict[Bit, Counter[tuple[str, str]]] = defaultdict(Counter)
        for name in self.cells:
            self._enter(name)
        for name, port in module["ports"].items():
            for bit in port["bits"]:
                if port["direction"] != "input":
                    self._readers[bit]["", name] += 1
        cells = (bit for name in self.cells for _, bit, _ in self._pins(name))
        ports = (bit for port in module["ports"].values() for bit in port["bits"])
        numbers = [bit for bit in chain(cells, ports) if isinstance(bit, int)]
        self._highest = max(numbers, default=0)  # number of a net

    def _enter(self, name: str) -> None:
        for pin, bit, output in self._pins(name):
            if output:
                self._driver[bit] = name, pin
            else:
                self._readers[bit][name, pin] += 1

    def _pins(self, name: str) -> Iterable[tuple[str, int, bool]]:
        cell = self.cells[name]
        for pin, bits in cell["connections"].items():
            for bit in bits:
                if isinstance(bit, int):
                    yield pin, bit, cell["port_directions"][pin] == "output"

    def of_type(self, kind: str) -> list[str]:
        return [name for name, cell in self.cells.items() if cell["type"] == kind]

    def pin(self, name: str, pin: str, open_: str = "x") -> Bit:
        """What is connected to a pin of one bit; `open_` where nothing is."""
        bits: list[Bit] = self.cells[name]["connections"].get(pin, [])
        return bits[0] if bits else open_

    def connect(self, name: str, pin: str, bit: Bit, direction: str = "input") -> None:
        """Connect an input, or an output to a net that nothing else drives any more."""
        old = self.pin(name, pin)
        if direction == "input":
            self._readers[old].subtract([(name, pin)])
            self._readers[bit][name, pin] += 1
        else:
            self._driver[bit] = name, pin
        self.cells[name]["connections"][pin] = [bit]
        self.cells[name]["port_directions"][pin] = direction

    def twin(self, name: str, copy: str, pin: str) -> Bit:
        """Add a copy of a cell with one output, `pin`, which drives a new net: that net."""
        self._highest += 1
        cell = self.cells[name]
        connections = {**cell["connections"], pin: [self._highest]}
        self.cells[copy] = {**deepcopy(cell), "connections": connections}
        self._enter(copy)
        return self._highest

    def remove(self, name: str) -> None:
        for pin, bit, output in self._pins(name):
            if not output:
                self._readers[bit].subtract([(name, pin)])
        del self.cells[name]

    def driver(self, bit: Bit) -> tuple[str, str]:
        """Cell and pin; ("", "") of a constant and of an input of the module."""
        return self._driver.get(bit, ("", ""))

    def readers(self, bit: Bit) -> list[tuple[str, str]]:
        """Cell and pin of all that read a net; ("", port) for an output of the module."""
        return sorted((+self._readers[bit]).keys()) if isinstance(bit, int) else []

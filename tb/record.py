"""What the pins of a unit are given and what its bench reads of them, cycle by cycle.

A record is text, a line of hexadecimal digits a cycle. From the low bits a line holds the inputs,
`rst` first; a word for each output; and a bit for each output, 1 where it was read in that cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Record:
    """What a bench has recorded, and the names of the tests that it played."""

    text: str
    played: Sequence[str]


def layout(ports: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The inputs and the outputs that have bits, in the order of a line."""
    inputs, outputs = (
        [x for x, facts in ports.items() if facts["width"] and facts["direction"] == side]
        for side in ("input", "output")
    )
    return ["rst", *(name for name in inputs if name not in ("clk", "rst"))], outputs


class Recorder:
    """Appends cycles to the record in a file.

    ports
        Of the unit's data sheet.
    """

    def __init__(self, path: Path, ports: Mapping[str, Any]) -> None:
        self._file = path.open("a", encoding="ascii", buffering=1)
        self._inputs, self._outputs = layout(ports)
        self._widths = {name: ports[name]["width"] for name in (*self._inputs, *self._outputs)}
        self._bits = sum(self._widths.values()) + len(self._outputs)
        self.given: dict[str, int] = {}
        self.read: dict[str, int] = {}

    def cycle(self) -> None:
        """The inputs as they are given now, and what was read since the last cycle."""
        words = [(self.given.get(name, 0), self._widths[name]) for name in self._inputs]
        words += [(self.read.get(name, 0), self._widths[name]) for name in self._outputs]
        words += [(int(name in self.read), 1) for name in self._outputs]
        line = 0
        for word, width in reversed(words):
            line = line << width | word
        self._file.write(f"{line:0{-(-self._bits // 4)}x}\n")
        self.read.clear()

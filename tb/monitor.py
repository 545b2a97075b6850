"""The trace ports of the engine: every write recorded, then compared with golden in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from cocotb.triggers import FallingEdge, RisingEdge, ValueChange

from tb.compare import Difference
from tb.expected import Writes
from tb.packing import unpack
from tb.streams import now
from tb.trace import TRACE_PORTS

#: Names of a tensor's axes by the port that it is written through; the others are (token, channel).
AXES = {
    "score": ("head", "query", "key"),
    "p": ("head", "query", "key"),
    "max": ("head", "query"),
    "sum": ("head", "query"),
    "logit": ("label",),
}


@dataclass
class Recorded:
    """Writes of one port: cycle, address and word of each.

    Attributes
    ----------
    width, signed
        Of an element of the word.
    """

    width: int
    signed: bool
    length: int
    cycle: list[int] = field(default_factory=list)
    address: list[int] = field(default_factory=list)
    word: list[int] = field(default_factory=list)

    def values(self, count: int) -> np.ndarray:
        """The first `count` words as int64 [count, lanes]."""
        if self.width in (8, 16, 32):
            size = self.width * self.length // 8
            packed = b"".join(word.to_bytes(size, "little") for word in self.word[:count])
            kind = f"<{'i' if self.signed else 'u'}{self.width // 8}"
            return np.frombuffer(packed, kind).reshape(count, self.length).astype(np.int64)
        rows = [unpack(w, self.width, self.length, self.signed) for w in self.word[:count]]
        return np.array(rows, np.int64).reshape(count, self.length)


@dataclass
class Comparison:
    """Counts of compared values and of mismatches by tensor, and the earliest difference."""

    compared: Counter[str] = field(default_factory=Counter)
    mismatches: Counter[str] = field(default_factory=Counter)
    first: Difference | None = None
    problem: str = ""

    def add(self, difference: Difference) -> None:
        self.mismatches[difference.tensor] += 0
        before = None if self.first is None else self.first.cycle
        if before is None or (difference.cycle is not None and difference.cycle < before):
            self.first = difference

    def compare(
        self,
        port: str,
        expected: Sequence[Writes],
        actual: Recorded,
        *,
        whole: bool,
        addressed: bool,
    ) -> None:
        """Compare a port's writes with golden's, in order; with `whole` none may be missing.

        The last NORM is an exception: the logits may need its first row tile alone, and when they
        are out the rest of it is given up.
        """
        done = 0
        for place, writes in enumerate(expected):
            wanted = len(writes.address)
            count = min(len(actual.word) - done, wanted)
            if port in ("norm", "norm8") and place == len(expected) - 1:
                first_tile = int((writes.index[:, 0, 0] < actual.length).sum())
                wanted = max(count, first_tile)
            if count:
                self._tensor(port, writes, actual, done, count, addressed)
            done += count
            if count < wanted and whole:
                self._problem(f"{writes.tensor}: {count} of {wanted} words were written")
            if count < len(writes.address):
                break
        else:
            if len(actual.word) > done:
                self._problem(
                    f"port {port} was written {len(actual.word)} times, golden has {done} words; "
                    f"the first too many in cycle {actual.cycle[done]}"
                )

    def _problem(self, text: str) -> None:
        self.problem = self.problem or text

    def _tensor(
        self, port: str, writes: Writes, actual: Recorded, start: int, count: int, addressed: bool
    ) -> None:
        part = slice(start, start + count)
        shown = Recorded(actual.width, actual.signed, actual.length, word=actual.word[part])
        values, expected = shown.values(count), writes.values[:count]
        wrong = (values != expected) & writes.valid[:count]
        self.compared[writes.tensor] += int(writes.valid[:count].sum())
        self.mismatches[writes.tensor] += int(wrong.sum())
        if wrong.any():
            word, lane = map(int, np.argwhere(wrong)[0])
            place = writes.index[word, lane]
            names = AXES.get(writes.port if port == "result" else port, ("token", "channel"))
            named = dict(zip(names, map(int, place)))
            rows = named.get("query", named.get("token", 0))
            position = {"tile": rows // actual.length, "lane": lane, "write": word} | named
            self.add(
                Difference(
                    tensor=writes.tensor,
                    position=position,
                    cycle=actual.cycle[start + word],
                    expected=int(expected[word, lane]),
                    actual=int(values[word, lane]),
                )
            )
        if addressed:
            addresses = np.array(actual.address[part])
            moved = np.flatnonzero(addresses != writes.address[:count])
            self.mismatches[writes.tensor] += len(moved)
            if len(moved):
                self.add(
                    Difference(
                        tensor=f"{writes.tensor}: address",
                        position={"write": int(moved[0])},
                        cycle=actual.cycle[start + int(moved[0])],
                        expected=int(writes.address[moved[0]]),
                        actual=int(addresses[moved[0]]),
                    )
                )

    def message(self) -> str:
        """The first difference, in one line; empty if there is none."""
        if self.first is None:
            return ""
        wrong, compared = self.mismatches.total(), self.compared.total()
        return f"{wrong} of {compared} values differ; first {self.first}"


class Monitor:
    """Records what the trace ports of a unit show.

    Parameters
    ----------
    sheet
        Data sheet of the unit: which trace ports there are, and their layouts.
    """

    def __init__(self, dut: Any, sheet: dict[str, Any]) -> None:
        self.dut, self.ports = dut, sheet["ports"]
        self.groups = [group for group in TRACE_PORTS if group[0] in self.ports]
        self.recorded: dict[str, Recorded] = {}
        #: (cycle, value) of every change of these ports, where the unit has them.
        self.changes: dict[str, list[tuple[int, int]]] = {}
        self.clear()

    def clear(self) -> None:
        """Forget everything: the next inference begins."""
        self.recorded = {}
        for _, _, names in self.groups:
            for name in names:
                facts = self.ports[f"trace_{name}"]
                element = facts.get("element", facts)
                self.recorded[name] = Recorded(
                    element["width"], element["signed"], facts.get("length", 1)
                )
        self.changes = {
            name: [(now(), int(getattr(self.dut, f"trace_{name}").value))]
            for name in ("active", "operation")
            if f"trace_{name}" in self.ports
        }

    @property
    def written(self) -> int:
        """Writes so far, of all ports."""
        return sum(len(port.word) for port in self.recorded.values())

    def watch(self) -> list[Any]:
        """The coroutines that record."""
        return [self._group(*group) for group in self.groups] + [
            self._changes(name) for name in self.changes
        ]

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
            self.changes[name].append((now(), int(handle.value)))

    def operations(self, names: Sequence[str], start: int) -> list[dict[str, Any]]:
        """First and last cycle with an operand (counted from `start`), and how many, by operation.

        Empty where the unit does not show its operation.
        """
        if not {"active", "operation"} <= set(self.changes):
            return []
        events = sorted(
            (cycle, order, name, value)
            for name, changes in self.changes.items()
            for order, (cycle, value) in enumerate(changes)
        )
        found: dict[int, dict[str, Any]] = {}
        state = {"active": 0, "operation": 0}
        since, number = events[0][0], 0
        for cycle, _, name, value in [*events, (now(), 0, "", 0)]:
            if state["active"] and cycle > since:
                number += (state["operation"] - number) % 256
                label = names[number] if number < len(names) else str(number)
                entry = found.setdefault(
                    number, {"number": number, "name": label, "first": since - start, "active": 0}
                )
                entry["active"] += cycle - since
                entry["last"] = cycle - 1 - start
            since = cycle
            if name:
                state[name] = value
        return list(found.values())

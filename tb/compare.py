"""Comparison of what the hardware did with golden, bit for bit, and the report of a difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tb.expected import Writes
from tb.packing import unpack


@dataclass(frozen=True)
class Difference:
    """The first value that differs.

    tensor
        Name of the intermediate, as in the golden trace.
    position
        Where in it: tile, lane, index or whatever its axes are called.
    cycle
        Cycle in which the hardware gave it, when known.
    expected, actual
        Both values.
    """

    tensor: str
    position: dict[str, int]
    cycle: int | None
    expected: int
    actual: int

    def __str__(self) -> str:
        place = ", ".join(f"{axis} {index}" for axis, index in self.position.items())
        when = "" if self.cycle is None else f" in cycle {self.cycle}"
        return f"{self.tensor}[{place}]{when} is {self.actual}, golden says {self.expected}"


class Mismatch(AssertionError):
    """Hardware and golden differ, or nothing was compared."""


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
    """A comparison with golden, over any number of tensors.

    compared, mismatches
        Values, and how many of them differ, by tensor.
    first
        The difference of the earliest cycle; where cycles are not known, the first in the order of
        the calls.
    problem
        The first port that was not written as often as golden says; empty if there is none.
    """

    compared: Counter[str] = field(default_factory=Counter)
    mismatches: Counter[str] = field(default_factory=Counter)
    first: Difference | None = None
    problem: str = ""

    def tensor(
        self,
        tensor: str,
        expected: np.ndarray,
        actual: np.ndarray,
        axes: Sequence[str],
        cycles: np.ndarray | None = None,
    ) -> int:
        """Compare two integer arrays of one shape; returns how many values differ.

        axes
            Names of the axes: ("tile", "index", "lane").
        cycles
            Cycle of each value, in a shape that broadcasts to theirs.

        Raises Mismatch: The shapes differ: words are missing, or there are too many.
        """
        expected, actual = np.asarray(expected), np.asarray(actual)
        if expected.shape != actual.shape:
            raise Mismatch(
                f"{tensor}: hardware gave the shape {list(actual.shape)}, golden "
                f"{list(expected.shape)} (axes {', '.join(axes)})"
            )
        wrong = np.flatnonzero(expected != actual)
        self.compared[tensor] += expected.size
        self.mismatches[tensor] += len(wrong)
        if len(wrong):
            when = None if cycles is None else np.broadcast_to(cycles, expected.shape).ravel()
            first = wrong[0] if when is None else wrong[np.argmin(when[wrong])]
            place = map(int, np.unravel_index(first, expected.shape))
            cycle = None if when is None else int(when[first])
            values = expected.flat[first], actual.flat[first]
            self._differs(tensor, dict(zip(axes, place)), cycle, *values)
        return len(wrong)

    def _differs(
        self, tensor: str, position: dict[str, int], cycle: int | None, expected: int, actual: int
    ) -> None:
        difference = Difference(tensor, position, cycle, int(expected), int(actual))
        if self.first is None:
            self.first = difference
        elif None not in (self.first.cycle, difference.cycle):
            self.first = min(self.first, difference, key=lambda one: one.cycle or 0)

    def ports(
        self, expected: Iterable[Writes], actual: Mapping[str, Recorded], *, whole: bool
    ) -> None:
        """Compare all writes of all ports with golden's; of `max` and `sum` without addresses."""
        of: dict[str, list[Writes]] = {port: [] for port in actual}
        for writes in expected:
            of[writes.port].append(writes)
        for port in sorted(of):
            addressed = port not in ("max", "sum")
            self.writes(port, of[port], actual[port], whole=whole, addressed=addressed)

    def writes(
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
                missing = f"{writes.tensor}: {count} of {wanted} words were written"
                self.problem = self.problem or missing
            if count < len(writes.address):
                break
        else:
            if len(actual.word) > done:
                self.problem = self.problem or (
                    f"port {port} was written {len(actual.word)} times, golden has {done} words; "
                    f"the first too many in cycle {actual.cycle[done]}"
                )

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
            pair = expected[word, lane], values[word, lane]
            self._differs(writes.tensor, position, actual.cycle[start + word], *pair)
        if addressed:
            addresses = np.array(actual.address[part])
            moved = np.flatnonzero(addresses != writes.address[:count])
            self.mismatches[writes.tensor] += len(moved)
            if len(moved):
                word = int(moved[0])
                pair, cycle = (writes.address[word], addresses[word]), actual.cycle[start + word]
                self._differs(f"{writes.tensor}: address", {"write": word}, cycle, *pair)

    def message(self) -> str:
        """The first difference, in one line; empty if there is none."""
        if self.first is None:
            return ""
        wrong, compared = self.mismatches.total(), self.compared.total()
        return f"{wrong} of {compared} values differ; first {self.first}"

    def check(self) -> None:
        """Raise Mismatch unless values were compared, and all were equal and there."""
        if self.first is not None or self.problem:
            raise Mismatch(self.message() or self.problem)
        if not self.compared.total():
            raise Mismatch("nothing was compared")

"""What the units of a simulated accelerator did in each cycle, by its trace ports (`tb.activity`).

The array reads an operand of an operation, or the issuer says a cycle before why it does not. The
others write something that the trace shows, or nothing. No schedule or prediction takes part.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from rtl.compile.program import Program
from rtl.interface.isa import Opcode
from rtl.interface.trace import Stall
from tb.activity import Record


class Kind(Enum):
    """How a state is drawn: work, a second kind of it, something is lacking, nothing to do."""

    WORK = "work"
    OTHER = "other"
    WAIT = "wait"
    REST = "rest"


class State(NamedTuple):
    """What a unit does, or why it does nothing, in a few words."""

    kind: Kind
    text: str


@dataclass(frozen=True, eq=False)
class Lane:
    """One unit; `each` has for each cycle the index of its state in `states`."""

    name: str
    states: tuple[State, ...]
    each: np.ndarray

    def runs(self) -> tuple[np.ndarray, np.ndarray]:
        """First cycle and state of every run of equal states."""
        first = np.flatnonzero(np.append(True, self.each[1:] != self.each[:-1]))
        return first, self.each[first]

    def cycles(self) -> dict[State, int]:
        """How many cycles each state took, those that never came left out."""
        counted = np.bincount(self.each, minlength=len(self.states))
        return {state: int(n) for state, n in zip(self.states, counted) if n}


@dataclass(frozen=True)
class Operation:
    """One operation on the array: number and name of its step, cycles of first and last operand."""

    number: int
    name: str
    opcode: Opcode
    first: int
    last: int


#: By unit what it does when a trace port shows a write.
UNITS = {
    "epilogue": {
        "bank": "writes int8 to the banks",
        "x": "writes sums to X16",
        "score": "writes scores to the softmax",
        "logit": "writes a logit",
    },
    "softmax": {"p": "writes p of a key", "sum": "writes the sums of a row tile"},
    "LayerNorm": {"norm": "writes a normalised channel of a row tile"},
}
#: Of the array, by the issuer's cause.
WAITS = {
    Stall.WEIGHTS: "weights: the weight tile or the embedding rows are not loaded",
    Stall.NORM: "norm: the row tile is not normalised",
    Stall.SOFTMAX: "softmax: the row tile's softmax has not finished",
    Stall.DRAIN: "drain: the tile before it still leaves the array",
}


def lanes(record: Record, program: Program) -> list[Lane]:
    """The array, then UNITS."""
    which, cycle = _numbers(record), np.arange(record.cycles)
    # A cause says why there is no operand in the cycle after it.
    cause = np.append(Stall.IDLE, record.each("stall")[:-1])
    reading = np.flatnonzero(which >= 0)
    idle = (which < 0) & (cause == Stall.IDLE)
    waits = [
        (idle & (cycle < reading[0]), State(Kind.WAIT, "idle: before the first operand")),
        (idle & (cycle > reading[-1]), State(Kind.REST, "idle: the results drain and leave")),
        (idle, State(Kind.WAIT, "idle: no tile; an operation waits until the array is quiet")),
        *(((which < 0) & (cause == one), State(Kind.WAIT, text)) for one, text in WAITS.items()),
    ]
    works = [(which == one.number, one.name) for one in operations(record, program)]
    rest = State(Kind.REST, "writes nothing")
    return [
        _lane("array", works, *waits, rest=State(Kind.WAIT, "no operand")),
        *(
            _lane(name, ((record.written(port), text) for port, text in writes.items()), rest=rest)
            for name, writes in UNITS.items()
        ),
    ]


def _lane(
    name: str,
    works: Iterable[tuple[np.ndarray, str]],
    *others: tuple[np.ndarray, State],
    rest: State,
) -> Lane:
    """A lane whose state in a cycle is that of the first that holds then, else `rest`."""
    choices = [
        (where, State((Kind.WORK, Kind.OTHER)[place % 2], text))
        for place, (where, text) in enumerate(works)
    ]
    choices += others
    which = np.select([where for where, _ in choices], range(len(choices)), len(choices))
    return Lane(name, (*(state for _, state in choices), rest), which.astype(np.uint16))


def _numbers(record: Record) -> np.ndarray:
    """The step in the program whose operand is read, for each cycle with one; else -1."""
    active, shown = record.each("active") == 1, record.each("operation")
    found = np.full(record.cycles, -1)
    # The port shows eight bits of a number that only grows.
    found[active] = np.cumsum(np.diff(shown[active].astype(np.int64), prepend=0) % 256)
    return found


def operations(record: Record, program: Program) -> list[Operation]:
    """The operations in their order."""
    which = _numbers(record)
    result = []
    for number in np.unique(which[which >= 0]).tolist():
        step = program.steps[number]
        name = f"{step.name}.attend" if step.opcode is Opcode.ATTEND else step.name
        there = np.flatnonzero(which == number)
        result.append(Operation(number, name, step.opcode, int(there[0]), int(there[-1])))
    return result

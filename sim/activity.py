"""What the units of a simulated accelerator did in each cycle, by its trace ports (`tb.activity`).

The array reads an operand of an operation, or the issuer says a cycle before why it does not. The
others write something that the trace shows, or nothing. No schedule or prediction takes part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from rtl.compile.program import Program
from rtl.interface.command import Opcode
from rtl.interface.trace import Stall
from tb.activity import Record


class Kind(Enum):
    """How a state is drawn.

    WORK, OTHER  it works; OTHER where a unit has a second kind of work.
    WAIT         it lacks something.
    REST         there is nothing to do.
    """

    WORK = "work"
    OTHER = "other"
    WAIT = "wait"
    REST = "rest"


@dataclass(frozen=True)
class State:
    """What a unit does, or why it does nothing, in a few words."""

    kind: Kind
    text: str


@dataclass(frozen=True, eq=False)
class Lane:
    """One unit.

    Attributes
    ----------
    each
        For each cycle the index of its state in `states`.
    """

    name: str
    about: str
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


def lane(name: str, about: str, choices: Sequence[tuple[np.ndarray, State]], rest: State) -> Lane:
    """A lane whose state in a cycle is that of the first choice that holds then, else `rest`."""
    states = (*(state for _, state in choices), rest)
    which = np.select([where for where, _ in choices], range(len(choices)), len(choices))
    return Lane(name, about, states, which.astype(np.uint16))


@dataclass(frozen=True)
class Operation:
    """One operation on the array: number and name of its step, cycles of first and last operand."""

    number: int
    name: str
    opcode: Opcode
    first: int
    last: int


#: By unit what it is, and what it does when a trace port shows a write.
UNITS = {
    "epilogue": (
        "bias, requantize, table",
        {
            "bank": "writes int8 to the banks",
            "x": "writes sums to X16",
            "score": "writes scores to the softmax",
            "logit": "writes a logit",
        },
    ),
    "softmax": (
        "lanes = queries",
        {"p": "writes p of a key", "sum": "writes the sums of a row tile"},
    ),
    "LayerNorm": ("reads X16, writes X8", {"norm": "writes a normalised channel of a row tile"}),
}


def lanes(record: Record, program: Program) -> list[Lane]:
    """The array, then UNITS."""
    units = [_unit(record, name, *facts) for name, facts in UNITS.items()]
    return [_array(record, program), *units]


def numbers(record: Record) -> np.ndarray:
    """The step in the program whose operand is read, for each cycle with one; else -1."""
    active, shown = record.each("active") == 1, record.each("operation")[:]
    found = np.full(record.cycles, -1)
    with_operand = shown[active].astype(np.int64)
    # The port shows eight bits of a number that only grows.
    grown = np.diff(with_operand, prepend=0) % 256
    found[active] = np.cumsum(grown)
    return found


def operations(record: Record, program: Program) -> list[Operation]:
    """The operations in their order."""
    which = numbers(record)
    result = []
    for number in np.unique(which[which >= 0]).tolist():
        step = program.steps[number]
        name = f"{step.name}.attend" if step.opcode is Opcode.ATTEND else step.name
        there = np.flatnonzero(which == number)
        result.append(Operation(number, name, step.opcode, int(there[0]), int(there[-1])))
    return result


def _array(record: Record, program: Program) -> Lane:
    which = numbers(record)
    active = which >= 0
    # A cause says why there is no operand in the cycle after it.
    cause = np.append(Stall.IDLE, record.each("stall")[:-1])
    cycle = np.arange(record.cycles)
    reading = np.flatnonzero(active)
    idle = ~active & (cause == Stall.IDLE)
    choices = [
        (which == one.number, State((Kind.WORK, Kind.OTHER)[place % 2], one.name))
        for place, one in enumerate(operations(record, program))
    ]
    choices += [
        (idle & (cycle < reading[0]), State(Kind.WAIT, "idle: before the first operand")),
        (idle & (cycle > reading[-1]), State(Kind.REST, "idle: the results drain and leave")),
        (idle, State(Kind.WAIT, "idle: no tile; an operation waits until the array is quiet")),
    ]
    texts = {
        Stall.WEIGHTS: "weights: the weight tile or the embedding rows are not loaded",
        Stall.NORM: "norm: the row tile is not normalised",
        Stall.SOFTMAX: "softmax: the row tile's softmax has not finished",
        Stall.DRAIN: "drain: the tile before it still leaves the array",
    }
    choices += [(~active & (cause == one), State(Kind.WAIT, text)) for one, text in texts.items()]
    return lane("array", "N x M multiply-accumulates", choices, State(Kind.WAIT, "no operand"))


def _unit(record: Record, name: str, about: str, writes: Mapping[str, str]) -> Lane:
    choices = [
        (record.written(port), State((Kind.WORK, Kind.OTHER)[place % 2], text))
        for place, (port, text) in enumerate(writes.items())
    ]
    return lane(name, about, choices, State(Kind.REST, "writes nothing"))

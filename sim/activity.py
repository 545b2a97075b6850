"""What the units of a simulated accelerator did in each cycle, by its trace ports.

The array reads an operand of an operation, or the issuer says a cycle before why it does not. The
others write something that the trace shows, or nothing. No schedule or prediction takes part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from rtl.compile.program import Program
from rtl.interface.isa import Opcode
from rtl.interface.trace import Stall
from tb.trace import CAUSES


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


@dataclass(frozen=True)
class Record:
    """One inference, cycle by cycle.

    case
        SHA-256 of the case that was played.
    cycles
        Of the inference, as its register counts them; cycle 0 is the first in which it is busy.
    changes
        Of the trace ports `active`, `operation` and `stall`: int64 [2, changes], the cycle of each
        change and the value from then on. The first is in cycle 0 or before. A signal has the value
        that it has when its cycle ends.
    writes
        By trace port (`tb.trace.TRACE_PORTS`): the cycles in which it was written, increasing.
    """

    case: str
    cycles: int
    changes: Mapping[str, np.ndarray]
    writes: Mapping[str, np.ndarray]

    def each(self, signal: str) -> np.ndarray:
        """The signal's value in each cycle, int16 [cycles]."""
        when, value = self.changes[signal]
        edges = np.clip(np.append(when, self.cycles), 0, self.cycles)
        return np.repeat(value.astype(np.int16), np.diff(edges))

    @property
    def unknown(self) -> list[str]:
        """The signals that are X at the end of some cycle."""
        return [signal for signal in self.changes if (self.each(signal) < 0).any()]

    def written(self, port: str) -> np.ndarray:
        """Whether a trace port was written, bool [cycles]."""
        return np.isin(np.arange(self.cycles), self.writes.get(port, ()))

    @property
    def which(self) -> np.ndarray:
        """The step in the program whose operand is read, for each cycle with one; else -1."""
        active, shown = self.each("active") == 1, self.each("operation")
        found = np.full(self.cycles, -1)
        # The port shows eight bits of a number that only grows.
        found[active] = np.cumsum(np.diff(shown[active].astype(np.int64), prepend=0) % 256)
        return found

    @property
    def numbers(self) -> np.ndarray:
        """As `sim.machine.result.Result` has them: of each operation its number, first and last
        cycle with an operand, how many, and the stalls before its tiles by cause."""
        which, cause = self.which, self.each("stall")
        reading = np.flatnonzero(which >= 0)
        stalls = np.stack([cause == one for one in range(len(CAUSES) + 1)])
        stalls[0] = False
        # A cause says why there is no operand in the cycle after it.
        counted = np.cumsum(np.pad(stalls, ((0, 0), (1, 0))), axis=1)[:, reading]
        waited = np.diff(counted, axis=1, prepend=0)
        rows = []
        for number in np.unique(which[reading]).tolist():
            of = which[reading] == number
            first, last = reading[of][[0, -1]].tolist()
            rows.append([number, first, last, of.sum(), *waited[:, of].sum(axis=1)])
        return np.array(rows, np.int64).reshape(-1, 5 + len(CAUSES))


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
    which, cycle = record.which, np.arange(record.cycles)
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


def operations(record: Record, program: Program) -> list[Operation]:
    """The operations in their order."""
    result = []
    for number, first, last, *_ in record.numbers.tolist():
        step = program.steps[number]
        name = f"{step.name}.attend" if step.opcode is Opcode.ATTEND else step.name
        result.append(Operation(number, name, step.opcode, first, last))
    return result

"""The activity of every unit in each cycle of a simulated inference, or its reason to rest.

    array       the operation whose operand is read; else the issuer's own cause, a cycle later
    epilogue    what is written: int8 to the banks, scores, sums to X16, logits
    softmax     a key's scores are read, or the row scales are computed
    LayerNorm   a word is read in pass 1 or 2, of X16
    loader      which part of the command stream is taken
    streams     a word passes, or which side keeps it from passing

Everything comes from the signals that were recorded (`tb.activity`); where the loader stands in the
stream is known from the words taken so far. No schedule or prediction takes part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from rtl.compile.program import Program
from rtl.interface.command import Opcode, descriptor_words
from rtl.interface.config import ceil_div
from rtl.interface.trace import Stall
from tb.activity import STREAMS, Record


class Kind(Enum):
    """How a state is drawn.

    WORK, OTHER  it works; OTHER where a unit has a second kind of work.
    WAIT         it lacks something.
    HELD         it could go on, and another unit or the outside keeps it from that.
    REST         there is nothing to do.
    """

    WORK = "work"
    OTHER = "other"
    WAIT = "wait"
    HELD = "held"
    REST = "rest"


@dataclass(frozen=True)
class State:
    """What a unit does, or why it does nothing, in a few words."""

    kind: Kind
    text: str


@dataclass(frozen=True, eq=False)
class Lane:
    """One unit or stream.

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


def lanes(record: Record, program: Program) -> list[Lane]:
    """All units and streams; softmax and LayerNorm where the build showed what is in them."""
    found = [_array(record, program), _epilogue(record)]
    if "engine.softmax.active" in record.changes:
        found.append(_softmax(record, operations(record, program)))
    if "normalizer.layernorm.between" in record.changes:
        found.append(_layernorm(record, program))
    return [*found, _loader(record, program), *_streams(record, program)]


def numbers(record: Record) -> np.ndarray:
    """The step in the program whose operand is read, for each cycle with one; else -1."""
    active, shown = record.each("trace_active") == 1, record.each("trace_operation")[:]
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
    cause = np.append(Stall.IDLE, record.each("trace_stall")[:-1])
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


def _epilogue(record: Record) -> Lane:
    written = record.written
    choices = [
        (written("bank"), State(Kind.WORK, "writes int8 to the banks")),
        (written("score"), State(Kind.WORK, "writes scores to the softmax")),
        (written("x"), State(Kind.OTHER, "writes sums to X16")),
        (written("logit"), State(Kind.OTHER, "writes a logit")),
    ]
    return lane("epilogue", "bias, requantize, table", choices, State(Kind.REST, "no column"))


def _softmax(record: Record, found: Sequence[Operation]) -> Lane:
    active = record.each("engine.softmax.active") == 1
    reading = active & (record.each("engine.softmax.reading") == 1)
    begins = np.flatnonzero(reading & ~np.append(False, reading[:-1]))
    waits = np.zeros(record.cycles, bool)
    for one in (one for one in found if one.opcode is Opcode.ATTEND):
        passes = begins[(begins >= one.first) & (begins <= one.last)]
        if len(passes):
            waits[one.first : passes[-1]] = True
    choices = [
        (reading, State(Kind.WORK, "a key's scores are read, p is written")),
        (active, State(Kind.OTHER, "the last p, sums and row scales")),
        (waits, State(Kind.WAIT, "waits for the scores of a row tile")),
    ]
    return lane("softmax", "lanes = queries", choices, State(Kind.REST, "no scores to come"))


def _later(signal: np.ndarray) -> np.ndarray:
    """What a register that is a cycle late says of its own cycle."""
    return np.append(signal[1:], 0) == 1


def _layernorm(record: Record, program: Program) -> Lane:
    path = "normalizer.layernorm."
    between = record.each(f"{path}between")
    first, second = (_later(record.each(f"{path}{name}_1")) for name in ("sums", "norms"))
    channels = next(s.values["channels"] for s in program.steps if s.opcode is Opcode.NORM)
    # A pass begins in the cycle in which the count of tiles between the two passes changes.
    begins = np.flatnonzero(np.diff(between, prepend=0))
    reads = np.flatnonzero(first | second)
    inside = np.zeros(record.cycles, bool)
    for place, begin in enumerate(begins.tolist()):
        final = (place + 1) * channels - 1
        inside[begin : reads[final] + 1 if final < len(reads) else record.cycles] = True
    waiting = np.cumsum(second) > np.cumsum(record.written("norm"))
    choices = [
        (first, State(Kind.WORK, "pass 1: sums of a row tile")),
        (second, State(Kind.OTHER, "pass 2: normalises a row tile")),
        (inside, State(Kind.HELD, "the epilogue has X16")),
        (between > 0, State(Kind.WAIT, "waits for mean and deviation of the row tile")),
        (waiting, State(Kind.OTHER, "the last words of pass 2 are written")),
        (
            record.each("normalizer.free") == 0,
            State(Kind.WAIT, "waits until a row tile of the sum is complete"),
        ),
    ]
    return lane("LayerNorm", "reads X16, writes X8", choices, State(Kind.REST, "no NORM in hand"))


def _passes(record: Record, stream: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where a word of a stream passes, is offered and not taken, is awaited and not offered."""
    valid, ready = (record.each(f"{STREAMS[stream]}_{pin}") == 1 for pin in ("tvalid", "tready"))
    return valid & ready, valid & ~ready, ready & ~valid


def _loader(record: Record, program: Program) -> Lane:
    taken, _, awaited = _passes(record, "model")
    width = program.config.stream_width
    descriptor = descriptor_words(width)
    # For every word of the stream: its step, and how far into it.
    words = [descriptor + ceil_div(len(step.payload), width) for step in program.steps]
    opcode = np.repeat([step.opcode for step in program.steps], words)
    offset = np.concatenate([np.arange(count) for count in words])
    opcodes = np.append(opcode, Opcode.END)
    offsets = np.append(offset, 0)
    coming = np.minimum(np.cumsum(taken) - taken, len(opcode))  # the next word, or this one
    over, place, at = coming == len(opcode), opcodes[coming], offsets[coming]
    before = np.append(0, opcode)[coming]  # the step of the word before it
    fresh, payload = at == 0, at >= descriptor
    parts = {
        Opcode.LINEAR: "weights and parameters",
        Opcode.NORM: "gamma and beta",
        Opcode.TABLE: "an activation table",
        Opcode.BIAS: "a position bias",
        Opcode.ROTARY: "rotary positions",
    }
    choices = [(taken & ~payload, State(Kind.OTHER, "takes a descriptor"))]
    choices += [
        (taken & (place == one), State(Kind.WORK, f"takes {text}")) for one, text in parts.items()
    ]
    choices += [
        (over, State(Kind.REST, "the stream has ended")),
        (awaited, State(Kind.WAIT, "the model stream has no word")),
        (
            payload & (place == Opcode.LINEAR),
            State(Kind.HELD, "both halves of the weights, or the units before them, are in use"),
        ),
        (
            (payload & (at > descriptor)) | (fresh & np.isin(before, [Opcode.NORM, Opcode.TABLE])),
            State(Kind.OTHER, "writes the bytes of a word one by one"),
        ),
        (payload, State(Kind.HELD, "the previous table or LayerNorm is still in use")),
        (fresh & (before == Opcode.EMBED), State(Kind.HELD, "the embedding rows come first")),
        (
            fresh & (before != 0),
            State(Kind.HELD, "checks a descriptor, or the sequencer has no room for it"),
        ),
    ]
    return lane(
        "loader", "reads the command stream", choices, State(Kind.REST, "before the first word")
    )


def _streams(record: Record, program: Program) -> list[Lane]:
    channels = next(s.values["channels"] for s in program.steps if s.opcode is Opcode.EMBED)
    words = ceil_div(channels, program.config.lanes)
    rows = np.cumsum(_passes(record, "rows")[0])
    asked = np.cumsum(_passes(record, "request")[0]) * words
    found = []
    for name, passed in ((name, "taken") for name in ("model", "tokens", "rows")):
        moves, held, awaited = _passes(record, name)
        choices = [(moves, State(Kind.WORK, f"a word is {passed}"))]
        if name == "rows":
            on_the_way = awaited & (asked > rows)
            choices.append((on_the_way, State(Kind.WAIT, "rows are asked for and on their way")))
            awaited = np.zeros_like(awaited)
        choices += [
            (held, State(Kind.HELD, "a word is offered, the accelerator does not take it yet")),
            (awaited, State(Kind.WAIT, "the source has no word")),
        ]
        about = "s_axis_" + name
        found.append(lane(f"{name} in", about, choices, State(Kind.REST, "closed")))
    for name, text in (("request", "a row is asked for"), ("logits", "a logit leaves")):
        moves, held, _ = _passes(record, name)
        choices = [
            (moves, State(Kind.WORK, text)),
            (held, State(Kind.HELD, "a word is offered, the outside does not take it yet")),
        ]
        rest = State(Kind.REST, "nothing to send")
        found.append(lane(f"{name} out", f"m_axis_{name}", choices, rest))
    order = ("model in", "tokens in", "request out", "rows in", "logits out")
    return sorted(found, key=lambda one: order.index(one.name))

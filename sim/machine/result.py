"""What the machine showed of an inference: the record of inference.h."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.machine.inference import Inference
from tb.compare import Recorded
from tb.trace import CAUSES, elements


@dataclass(frozen=True)
class Operation:
    """Cycles of one operation of the program.

    Attributes
    ----------
    number
        Place of its descriptor in the program (modulo 256).
    first, last
        First and last cycle in which one of its operands entered the array.
    active
        How many cycles that were.
    stalls
        Cycles without an operand before its tiles, by cause.
    """

    number: int
    first: int
    last: int
    active: int
    stalls: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one inference did.

    Attributes
    ----------
    inference
        What was played.
    end
        "done"; "rescued", "reset" or "skipped", where its run asks for that; else how it failed:
        "not started", "hang" (nothing has moved for too long), "too long", "abort does not end".
    model_rest, tokens_rest
        Whether its words are those that the inference before has left.
    left
        Words of both that stay offered.
    status, sequence
        The registers after the end, the latter the sequence of the batch that has failed; -1 and 0
        where the next run had begun before they were read.
    took
        Cycles from the answer of the write of `start` to the end.
    model_from, model_taken, tokens_from, tokens_taken
        Words of its packets that were taken before it and at its end.
    rows_pending
        Rows that were asked for and had not come by the end.
    beyond
        The first row that was asked for and is not in the table; -1: none.
    stall, progress
        Of a hang: why there was no operand in the end, and when something moved last.
    first_token, last_logit
        Cycles in which they passed, from the first cycle of `busy` on.
    logits
        int32, of one sequence after the other; empty after an error.
    lasts
        Places of those with `last`.
    counters
        cycles, active and the stalls of the register file; empty where they were not read.
    simulated
        Cycles, register accesses included.
    numbers
        Those of its operations, int64: a row each.
    writes
        By port, where a trace was asked for.
    wrong
        What nobody may do, whatever is played.
    """

    inference: Inference = field(repr=False)
    end: str = "done"
    model_rest: int = 0
    tokens_rest: int = 0
    left: int = 0
    status: int = -1
    sequence: int = 0
    took: int = 0
    model_from: int = 0
    model_taken: int = 0
    tokens_from: int = 0
    tokens_taken: int = 0
    rows_pending: int = 0
    beyond: int = -1
    stall: int = 0
    progress: int = 0
    first_token: int = 0
    last_logit: int = 0
    logits: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))
    lasts: tuple[int, ...] = ()
    counters: tuple[int, ...] = ()
    simulated: int = 0
    numbers: np.ndarray = field(default_factory=lambda: np.zeros((0, 5 + len(CAUSES)), np.int64))
    writes: dict[str, Recorded] = field(default_factory=dict)
    wrong: tuple[str, ...] = ()

    @property
    def code(self) -> int:
        """The error of `status`, one that there is or not."""
        return self.status >> 8 & 15

    @property
    def error(self) -> Error:
        """Error.NONE when it ended well."""
        return Error(self.code)

    @property
    def cycles(self) -> int:
        return self.counters[0] if self.counters else 0

    @property
    def active(self) -> int:
        return self.counters[1]

    @property
    def stalls(self) -> dict[str, int]:
        return dict(zip(CAUSES, self.counters[2:]))

    @property
    def operations(self) -> tuple[Operation, ...]:
        """In the order in which they began."""
        return tuple(
            Operation(number, first, last, active, dict(zip(CAUSES, stalls, strict=True)))
            for number, first, last, active, _, *stalls in self.numbers.tolist()
        )

    @property
    def span(self) -> int:
        """Cycles from the first token's word to the last logit, both included; 0 without logits.

        As seen on the streams; equal to `cycles` where the tokens wait for the start.
        """
        return self.last_logit - self.first_token + 1 if self.logits.size else 0


class _Writes(ctypes.Structure):
    _fields_ = [
        ("count", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("cycles", ctypes.c_void_p),
        ("addresses", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
    ]


NUMBERS = (
    *("model_rest", "tokens_rest", "left", "status", "sequence", "took", "model_from"),
    *("model_taken", "tokens_from", "tokens_taken", "rows_pending", "beyond", "stall"),
    *("progress", "first_token", "last_logit", "simulated"),
)
LISTS = {"logits": np.int32, "lasts": np.uint64, "counters": np.uint32, "numbers": np.int64}


class Record(ctypes.Structure):
    """The record of inference.h."""

    _fields_ = [
        ("end", ctypes.c_char_p),
        ("wrong", ctypes.c_char_p),
        *((name, ctypes.c_int64) for name in NUMBERS),
        *((f"{name}_count", ctypes.c_uint64) for name in (*LISTS, "writes")),
        *((name, ctypes.c_void_p) for name in LISTS),
        ("writes", ctypes.POINTER(_Writes)),
    ]


def _array(address: int, count: int, kind: Any) -> np.ndarray:
    return np.frombuffer(ctypes.string_at(address, count * np.dtype(kind).itemsize), kind)


def result_of(record: Record, inference: Inference, config: Config) -> Result:
    """A record as long as its pointers hold."""
    width = {"numbers": 5 + len(CAUSES)}
    lists = {
        name: _array(
            getattr(record, name), getattr(record, f"{name}_count") * width.get(name, 1), kind
        )
        for name, kind in LISTS.items()
    }
    return Result(
        inference=inference,
        end=record.end.decode(),
        **{name: getattr(record, name) for name in NUMBERS},
        logits=lists["logits"],
        lasts=tuple(lists["lasts"].tolist()),
        counters=tuple(lists["counters"].tolist()),
        numbers=lists["numbers"].reshape(-1, width["numbers"]),
        writes=_writes(record, config) if record.writes_count else {},
        wrong=tuple(record.wrong.decode().splitlines()),
    )


def _writes(record: Record, config: Config) -> dict[str, Recorded]:
    found = {}
    for place, (name, (bits, signed)) in enumerate(elements(config.tokens).items()):
        port = record.writes[place]
        count, size = port.count, port.bytes
        values = ctypes.string_at(port.values, count * size)
        word = [
            int.from_bytes(values[i : i + size], "little") for i in range(0, len(values), size or 1)
        ]
        cycle, address = (
            _array(at, count, np.uint32).tolist() for at in (port.cycles, port.addresses)
        )
        found[name] = Recorded(
            bits, signed, 1 if name == "logit" else config.lanes, cycle, address, word
        )
    return found

"""What the machine showed of an inference: the record of inference.h."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.machine.inference import Inference, Span
from tb.compare import Recorded
from tb.trace import CAUSES, elements


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one inference did, the ``inference`` that was played.

    The ``end`` is "done"; "rescued" or "reset", where its client or events ask for that; else it
    failed: "not started", "hang" (nothing has moved for too long), "too long", "abort does not
    end". ``model_rest`` and ``tokens_rest`` say whether its words are those that the inference
    before has left, ``left`` how many words of both stay offered. ``status`` and ``sequence`` are
    the registers after the end, the latter the sequence of the batch that has failed; -1 and 0
    where the next run had begun before they were read. It ``took`` cycles from the answer of the
    write of `start` to the end.

    ``model_from``, ``model_taken``, ``tokens_from`` and ``tokens_taken`` are the words of its
    packets that were taken before it and at its end, ``rows_pending`` the rows that were asked for
    and had not come by then; ``beyond`` is the first row that was asked for and is not in the
    table, -1 for none. Of a hang ``stall`` says why there was no operand in the end, ``progress``
    when something moved last. ``first_token`` and ``last_logit`` are the cycles in which they
    passed, from the first cycle of `busy` on; ``simulated`` cycles include register accesses.

    ``logits`` are int32, of one sequence after the other, empty after an error; ``lasts`` the
    places of those with `last`. ``counters`` are cycles, active and the stalls of the register
    file, empty where they were not read; ``numbers`` are int64, a row an operation, as `operations`
    takes them apart; ``writes`` are by port, where a trace was asked for. ``wrong`` is what nobody
    may do, whatever is played.
    """

    inference: Inference = field(repr=False)
    end: str
    model_rest: int = 0
    tokens_rest: int = 0
    left: int = 0
    status: int
    sequence: int = 0
    took: int
    model_from: int = 0
    model_taken: int
    tokens_from: int = 0
    tokens_taken: int
    rows_pending: int
    beyond: int = -1
    stall: int
    progress: int
    first_token: int = -1
    last_logit: int = -1
    simulated: int
    logits: np.ndarray
    lasts: tuple[int, ...]
    counters: tuple[int, ...]
    numbers: np.ndarray
    writes: dict[str, Recorded]
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
    def operations(self) -> list[tuple[int, int, int, int, dict[str, int]]]:
        """In the order in which they began: number, first, last, active, stalls of each.

        ``number`` is the place of its descriptor in the program (modulo 256); ``first`` and
        ``last`` are the cycles in which its operands entered the array, of which ``active`` did;
        ``stalls`` are cycles without an operand before its tiles, by cause.
        """
        return [
            (number, first, last, active, dict(zip(CAUSES, stalls, strict=True)))
            for number, first, last, active, _, *stalls in self.numbers.tolist()
        ]


class _Writes(ctypes.Structure):
    _fields_ = [
        *((name, Span) for name in ("cycles", "addresses", "values")),
        ("bytes", ctypes.c_uint64),
    ]


NUMBERS = tuple(one.name for one in fields(Result) if one.type == "int")
LISTS = {"logits": np.int32, "lasts": np.uint64, "counters": np.uint32, "numbers": np.int64}


class Record(ctypes.Structure):
    """The record of inference.h."""

    _fields_ = [
        ("end", ctypes.c_char_p),
        ("wrong", ctypes.c_char_p),
        *((name, ctypes.c_int64) for name in NUMBERS),
        *((name, Span) for name in (*LISTS, "writes")),
    ]


def _array(span: Span, kind: Any, each: int = 1) -> np.ndarray:
    size = span.count * each * np.dtype(kind).itemsize
    return np.frombuffer(ctypes.string_at(span.data or 0, size), kind)


def result_of(record: Record, inference: Inference, config: Config) -> Result:
    """A record as long as its pointers hold."""
    each = 5 + len(CAUSES)  # numbers of an operation
    lists = {
        name: _array(getattr(record, name), kind, each if name == "numbers" else 1)
        for name, kind in LISTS.items()
    }
    return Result(
        inference=inference,
        end=record.end.decode(),
        **{name: getattr(record, name) for name in NUMBERS},
        logits=lists["logits"],
        lasts=tuple(lists["lasts"].tolist()),
        counters=tuple(lists["counters"].tolist()),
        numbers=lists["numbers"].reshape(-1, each),
        writes=dict(_writes(record.writes, config)) if record.writes.count else {},
        wrong=tuple(record.wrong.decode().splitlines()),
    )


def _writes(writes: Span, config: Config) -> Iterator[tuple[str, Recorded]]:
    ports = ctypes.cast(writes.data, ctypes.POINTER(_Writes))
    for place, (name, (bits, signed)) in enumerate(elements(config.tokens).items()):
        port = ports[place]
        values, size = ctypes.string_at(port.values.data or 0, port.values.count), port.bytes
        words = [
            int.from_bytes(values[i : i + size], "little") for i in range(0, len(values), size or 1)
        ]
        cycles, addresses = (_array(x, np.uint32).tolist() for x in (port.cycles, port.addresses))
        lanes = 1 if name == "logit" else config.lanes
        yield name, Recorded(bits, signed, lanes, cycles, addresses, words)

"""What the machine showed of an inference: the record that record.h and trace.h write."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rtl.interface.config import Config
from rtl.interface.operation import Error
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
    index
        Number of its case.
    end
        "done"; "rescued", "reset" or "skipped", where its run asks for that; else how it failed:
        "not started", "hang" (nothing has moved for too long), "too long", "abort does not end".
    model_rest, tokens_rest
        Whether its words are those that the run before has left.
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
    operations
        In the order in which they began.
    simulated, seconds
        Of its case: simulated cycles, register accesses included, and the wall clock they took.
    writes
        By port, when the job asked for a trace.
    """

    index: int = 0
    end: str = "done"
    model_rest: int = 0
    tokens_rest: int = 0
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
    operations: tuple[Operation, ...] = ()
    simulated: int = 0
    seconds: float = 0.0
    writes: dict[str, Recorded] = field(default_factory=dict)

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
        return self.counters[0]

    @property
    def active(self) -> int:
        return self.counters[1]

    @property
    def stalls(self) -> dict[str, int]:
        return dict(zip(CAUSES, self.counters[2:]))

    @property
    def span(self) -> int:
        """Cycles from the first token's word to the last logit, both included; 0 without logits.

        As seen on the streams; equal to `cycles` where the tokens wait for the start.
        """
        return self.last_logit - self.first_token + 1 if self.logits.size else 0


@dataclass(frozen=True)
class Played:
    """What a case showed.

    Attributes
    ----------
    runs
        In the order in which they were played; one that takes what is left may have several.
    wrong
        What nobody may do, whatever is played.
    """

    number: int
    runs: tuple[Result, ...]
    wrong: list[str]


def read(line: bytes, folder: Path, config: Config) -> Played:
    """A line that the machine printed, and the file of writes in its folder, which is removed."""
    facts = json.loads(line)
    number = facts["number"]
    common = {"index": number, "simulated": facts["simulated"], "seconds": facts["seconds"]}
    path = folder / f"writes-{number}"
    if path.exists():
        common["writes"] = _writes(path.read_bytes(), config)
        path.unlink()
    return Played(number, tuple(_run(run, common) for run in facts["runs"]), facts["wrong"])


def _run(facts: dict[str, Any], common: dict[str, Any]) -> Result:
    facts["logits"] = np.array(facts["logits"], np.int32)
    facts["lasts"], facts["counters"] = tuple(facts["lasts"]), tuple(facts["counters"])
    facts["operations"] = tuple(
        Operation(number, first, last, active, dict(zip(CAUSES, stalls, strict=True)))
        for number, first, last, active, *stalls in facts["operations"]
    )
    return Result(**facts, **common)


def _writes(data: bytes, config: Config) -> dict[str, Recorded]:
    """The file of trace.h."""
    writes, at = {}, 0
    for name, (bits, signed) in elements(config.tokens).items():
        count, size = struct.unpack_from("<2I", data, at)
        cycle, address = np.frombuffer(data, "<u4", 2 * count, at + 8).reshape(2, count).tolist()
        at += 8 + 8 * count
        word = [
            int.from_bytes(data[i : i + size], "little")
            for i in range(at, at + count * size, size or 1)
        ]
        at += count * size
        length = 1 if name == "logit" else config.lanes
        writes[name] = Recorded(bits, signed, length, cycle, address, word)
    return writes

"""One inference on the C++ harness: its job, its result, and both as sim/harness has them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rtl.compile.program import Program
from rtl.interface.operation import Error
from tb.compare import Recorded
from tb.packing import token_words
from tb.trace import CAUSES, ELEMENTS

MAGIC = 0x4A523242  # "B2RJ"


@dataclass(frozen=True, eq=False)
class Job:
    """One inference.

    Attributes
    ----------
    program
        The compiled model, or the bytes of a command stream, good or bad.
    table
        `rtl.compile.program.embedding_table` of the model; beside bytes any table. Jobs with the
        same program and table objects share one copy.
    ids, types, attend
        The sequence, one entry a token; types are 0 and all tokens attend when left out.
    lengths
        Tokens of each sequence, where ids, types and attend hold a batch.
    trace
        Record every write of a named intermediate.
    abort
        Write `abort` so many cycles after the start.
    """

    program: Program | bytes
    table: np.ndarray
    ids: Sequence[int] | np.ndarray
    types: Sequence[int] | np.ndarray | None = None
    attend: Sequence[int] | np.ndarray | None = None
    trace: bool = False
    abort: int | None = None
    lengths: Sequence[int] | None = None

    def words(self) -> np.ndarray:
        """The words of the tokens stream, uint32."""
        return token_words(self.ids, self.types, self.attend, self.lengths)


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


@dataclass(frozen=True)
class Result:
    """What one inference did.

    Attributes
    ----------
    index
        Place of its job in the list.
    error
        Error.NONE when it ended well.
    sequence
        The sequence of the batch that has failed.
    logits
        int32, of one sequence after the other; empty after an error.
    cycles, active, stalls
        The counters of the register file.
    span
        Cycles from the first token's word to the last logit, both included, as seen on the
        streams; 0 without logits. Equal to `cycles` where the tokens wait for the start.
    operations
        In the order in which they began.
    writes
        By port, when the job asked for a trace.
    simulated, seconds
        Simulated cycles, register accesses included, and the wall clock that they took.
    """

    index: int
    error: Error
    sequence: int
    logits: np.ndarray
    cycles: int
    active: int
    stalls: dict[str, int]
    span: int
    operations: tuple[Operation, ...]
    simulated: int
    seconds: float
    writes: dict[str, Recorded] = field(default_factory=dict)


def job_file(
    jobs: Sequence[Job],
    share: Sequence[int],
    settings: tuple[int, ...],
    seed: int,
    trace: bool,
) -> bytes:
    """What sim/harness/job.h reads."""
    lanes = settings[0]
    programs = {id(jobs[i].program): jobs[i].program for i in share}
    tables = {id(jobs[i].table): jobs[i].table for i in share}
    parts = [struct.pack("<8IQ", MAGIC, *settings, seed), struct.pack("<I", len(programs))]
    for program in programs.values():
        stream = program if isinstance(program, bytes) else program.stream()
        if len(stream) % lanes:
            raise ValueError(f"a stream of {len(stream)} bytes is no multiple of {lanes} lanes")
        parts += [struct.pack("<I", len(stream)), stream]
    parts.append(struct.pack("<I", len(tables)))
    for table in tables.values():
        if table.dtype != np.int8 or table.ndim != 2 or table.shape[1] % lanes:
            raise ValueError(
                f"the table is {table.dtype}{list(table.shape)}: it must be what "
                f"embedding_table(model, {lanes}) gives"
            )
        parts += [struct.pack("<2I", table.shape[1], table.shape[0]), table.tobytes()]
    crcs = {key: zlib.crc32(table.tobytes()) for key, table in tables.items()}
    for job in (jobs[i] for i in share):
        if isinstance(job.program, Program) and crcs[id(job.table)] != job.program.rows_crc:
            raise ValueError(
                "the table is damaged or another model's than the program: give embedding_table of "
                "the model that was compiled"
            )
    parts.append(struct.pack("<I", len(share)))
    for index in share:
        job = jobs[index]
        words = job.words()
        parts.append(
            struct.pack(
                "<4IiI",
                index,
                list(programs).index(id(job.program)),
                list(tables).index(id(job.table)),
                trace or job.trace,
                -1 if job.abort is None else job.abort,
                len(words),
            )
        )
        parts.append(words.astype("<u4").tobytes())
    return b"".join(parts)


def read_result(facts: dict[str, Any], folder: Path, lanes: int) -> Result:
    path = folder / f"writes-{facts['index']}"
    writes = {}
    if path.exists():
        writes = _writes(path.read_bytes(), lanes)
        path.unlink()
    span = facts["last_logit"] - facts["first_token"] + 1 if facts["logits"] else 0
    return Result(
        index=facts["index"],
        error=Error(facts["status"] >> 8 & 15),
        sequence=facts["sequence"],
        logits=np.array(facts["logits"], np.int32),
        cycles=facts["cycles"],
        active=facts["active"],
        stalls=dict(zip(CAUSES, facts["stalls"], strict=True)),
        span=span,
        operations=tuple(
            Operation(number, first, last, active, dict(zip(CAUSES, stalls, strict=True)))
            for number, first, last, active, *stalls in facts["operations"]
        ),
        simulated=facts["simulated"],
        seconds=facts["seconds"],
        writes=writes,
    )


def _writes(data: bytes, lanes: int) -> dict[str, Recorded]:
    """The file of sim/harness/trace.h."""
    writes, at = {}, 0
    for name, (bits, signed) in ELEMENTS.items():
        count, size = struct.unpack_from("<2I", data, at)
        cycle, address = np.frombuffer(data, "<u4", 2 * count, at + 8).reshape(2, count).tolist()
        at += 8 + 8 * count
        word = [
            int.from_bytes(data[i : i + size], "little")
            for i in range(at, at + count * size, size or 1)
        ]
        at += count * size
        length = 1 if name == "logit" else lanes
        writes[name] = Recorded(bits, signed, length, cycle, address, word)
    return writes

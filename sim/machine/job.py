"""What the machine plays: cases of inferences, good or bad, and the file that job.h reads."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, IntFlag
from typing import Any, Self

import numpy as np

from rtl.interface.command import MAGIC as STREAM_MAGIC
from rtl.interface.command import VERSION
from rtl.interface.config import Config

MAGIC = 0x4A523242  # "B2RJ"


class Action(IntEnum):
    """What an event does."""

    WRITE = 0
    READ = 1
    RESET = 2


class After(IntEnum):
    """What an event follows."""

    START = 0
    MODEL = 1
    TOKENS = 2
    REQUEST = 3
    ROWS = 4
    LOGITS = 5


class Client(IntFlag):
    """How the client of a run behaves; the meaning of each is in job.h."""

    NONE = 0
    KEEP = 1
    REST = 2
    RESCUE = 4
    HURRY = 8
    KNOCK = 16
    POLL = 32


STALL, TRACE = 64, 128  # flags beside those of the client


@dataclass(frozen=True)
class Event:
    """A register access, or a reset of `data` cycles.

    It comes `cycle` cycles after the start, or after `count` words more than one of a stream were
    taken; never, when they are not.
    """

    cycle: int
    action: Action = Action.WRITE
    address: int = 0
    strobe: int = 15
    data: int = 0
    after: After = After.START
    count: int = 0


@dataclass(frozen=True)
class Packets:
    """Words of a stream and where `last` is set."""

    data: bytes
    last: bytes

    @staticmethod
    def whole(data: bytes, word_bytes: int) -> Packets:
        """One packet."""
        words = len(data) // word_bytes
        return Packets(data, bytes(max(words - 1, 0)) + b"\1" * (words > 0))

    def word_bytes(self) -> int:
        return len(self.data) // len(self.last) if self.last else 1

    def after(self, words: int) -> Packets:
        """What is left when so many words were taken."""
        return Packets(self.data[words * self.word_bytes() :], self.last[words:])

    def first(self) -> Packets | None:
        """Up to the first `last`; None when there is none."""
        end = self.last.find(1) + 1
        return Packets(self.data[: end * self.word_bytes()], self.last[:end]) if end else None


@dataclass(frozen=True)
class Run:
    """One inference, good or bad.

    Attributes
    ----------
    model, tokens
        What the sources offer.
    table
        Which of the job's tables the row memory has.
    row_words, row_latency, row_silence
        Words that it answers with, cycles from a request to the first of them, cycles in which it
        says nothing.
    client
        How the client behaves.
    seed
        Of 64 bits, what the rests of all streams are drawn from; None: they never rest.
    trace
        Record every write of a named intermediate.
    idle, model_delay, tokens_delay
        Cycles before `start` is written, and from there to the streams; 0: offered before.
    events
        In the order in which they happen.
    """

    model: Packets
    tokens: Packets
    table: int = 0
    row_words: int = 0
    row_latency: int = 1
    row_silence: int = 0
    client: Client = Client.NONE
    seed: int | None = None
    trace: bool = False
    idle: int = 0
    model_delay: int = 0
    tokens_delay: int = 0
    events: tuple[Event, ...] = ()

    def but(self, **changes: Any) -> Self:
        """The same run with other attributes."""
        return replace(self, **changes)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all cases of a job share; the meaning of each is in job.h."""

    lanes: int
    mutant: int = 0
    odd: bool = False
    reset: int = 0
    quiet: int = 1
    patience: int
    longest: int = 0
    interval: int = 1
    ahead: int = 1


def fixed_registers(config: Config) -> dict[int, int]:
    """What the registers of docs/architecture.md that never change read, by address."""
    found = {0x00: STREAM_MAGIC, 0x04: VERSION, 0x08: config.lanes, 0x0C: config.tokens}
    return found | {0x10: config.hidden, 0x14: config.ffn, 0x18: config.labels, 0x1C: 0,
                    0x4C: config.tile_columns}  # fmt: skip


def job_file(
    settings: Settings,
    config: Config,
    tables: Sequence[np.ndarray],
    cases: Mapping[int, Sequence[Run]],
) -> bytes:
    """What job.h reads: the runs of each case, by its number."""
    fixed = fixed_registers(config)
    streams: dict[Packets, int] = {}
    played = [struct.pack("<I", len(cases))]
    for number, runs in cases.items():
        played.append(struct.pack("<2I", number, len(runs)))
        for run in runs:
            model, tokens = (streams.setdefault(s, len(streams)) for s in (run.model, run.tokens))
            flags = run.client | STALL * (run.seed is not None) | TRACE * run.trace
            played.append(
                struct.pack(
                    "<Q11I",
                    run.seed or 0,
                    flags,
                    model,
                    tokens,
                    run.table,
                    run.row_latency,
                    run.row_words,
                    run.row_silence,
                    run.idle,
                    run.model_delay,
                    run.tokens_delay,
                    len(run.events),
                )
            )
            played += [
                struct.pack("<7I", e.after, e.count, e.cycle, e.action, e.address, e.strobe, e.data)
                for e in run.events
            ]
    parts = [struct.pack("<10I", MAGIC, *vars(settings).values())]
    parts += [struct.pack("<I", len(fixed)), *(struct.pack("<2I", *pair) for pair in fixed.items())]
    parts.append(struct.pack("<I", len(streams)))
    for stream in streams:
        ends = lasts(stream)
        parts += [_sized(stream.data), struct.pack("<I", len(ends)), ends.tobytes()]
    parts.append(struct.pack("<I", len(tables)))
    for table in tables:
        parts += [struct.pack("<I", table.shape[1]), _sized(table.tobytes())]
    return b"".join(parts + played)


def lasts(packets: Packets) -> np.ndarray:
    """Places of the words with `last`, uint32."""
    return np.flatnonzero(np.frombuffer(packets.last, np.uint8)).astype("<u4")


def _sized(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data

"""A case of the fuzzer: runs of the accelerator from one reset on, as `cases.h` has them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, IntFlag
from typing import Any

import numpy as np

from rtl.interface.command import MAGIC as STREAM_MAGIC
from rtl.interface.command import VERSION
from rtl.interface.config import Config
from rtl.interface.operation import Error

MAGIC = 0x46523242  # "B2RF"


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
    """How the client of a run behaves; the meaning of each is in cases.h."""

    NONE = 0
    KEEP = 1
    REST = 2
    RESCUE = 4
    HURRY = 8
    KNOCK = 16
    POLL = 32


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
    good
        These very streams are a sound inference: code 0, and `logits` bit for bit.
    logits
        What golden computes, where it is known what must come.
    behind
        What golden computes of the packets that stand behind the first ones in both streams.
    width
        Bytes of a row of the table, as the memory has them.
    others
        Codes that are right for this run besides those of its streams; `others` alone when
        `only_others`.
    """

    model: Packets
    tokens: Packets
    logits: tuple[int, ...] | None = None
    behind: tuple[int, ...] | None = None
    table: int = 0
    row_words: int = 0
    row_latency: int = 1
    row_silence: int = 0
    client: Client = Client.NONE
    seed: int = 0
    idle: int = 0
    model_delay: int = 0
    tokens_delay: int = 0
    events: tuple[Event, ...] = ()
    others: frozenset[Error] = field(default_factory=frozenset)

    def but(self, **changes: Any) -> Run:
        """The same run with other attributes."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Case:
    """What is played from one reset on."""

    number: int
    kind: str
    runs: tuple[Run, ...]


def _bytes(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _run(run: Run) -> bytes:
    events = b"".join(
        struct.pack("<7I", e.after, e.count, e.cycle, e.action, e.address, e.strobe, e.data)
        for e in run.events
    )
    settings = (
        run.client, run.seed, run.table, run.row_latency, run.row_words, run.row_silence,
        run.idle, run.model_delay, run.tokens_delay, len(run.events),
    )  # fmt: skip
    streams = [_bytes(part) for s in (run.model, run.tokens) for part in (s.data, s.last)]
    return struct.pack("<10I", *settings) + events + b"".join(streams)


def fixed_registers(config: Config) -> dict[int, int]:
    """What the registers of docs/architecture.md that never change read, by address."""
    found = {0x00: STREAM_MAGIC, 0x04: VERSION, 0x08: config.lanes, 0x0C: config.tokens}
    return found | {0x10: config.hidden, 0x14: config.ffn, 0x18: config.labels, 0x1C: 0}


def job_file(
    config: Config, patience: int, tables: Sequence[np.ndarray], cases: Sequence[Case]
) -> bytes:
    """What verify/fuzz/cases.h reads."""
    fixed = fixed_registers(config)
    parts = [struct.pack("<4I", MAGIC, config.lanes, patience, len(fixed))]
    parts += [struct.pack("<2I", *pair) for pair in fixed.items()]
    parts.append(struct.pack("<I", len(tables)))
    for table in tables:
        parts += [struct.pack("<I", table.shape[1]), _bytes(table.tobytes())]
    parts.append(struct.pack("<I", len(cases)))
    for case in cases:
        parts.append(struct.pack("<2I", case.number, len(case.runs)))
        parts += [_run(run) for run in case.runs]
    return b"".join(parts)

"""What the machine plays: an inference, good or bad, and the clients and memories around it."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, IntFlag
from functools import cached_property
from typing import Any, Self

from cli.errors import UserError

import numpy as np

from rtl.compile.program import Program
from rtl.interface.config import ceil_div
from rtl.interface.registers import ADDRESS
from tb.packing import lengths_of, token_words

ROW_LATENCY = 20
PATIENCE = 100_000
STREAMS = "stream_bytes", "stream_ahead", "row_latency"
"""Of an inference what `sim.cycles.model.predict` takes, and commands as options."""
START, ABORT = 1, 2  # bits of control


Action = IntEnum("Action", ["WRITE", "READ", "RESET"], start=0)
"""What an event does."""
After = IntEnum("After", ["START", "MODEL", "TOKENS", "REQUEST", "ROWS", "LOGITS"], start=0)
"""What an event follows."""
Client = IntFlag(
    "Client", {"NONE": 0, "KEEP": 1, "REST": 2, "RESCUE": 4, "HURRY": 8, "KNOCK": 16, "POLL": 32}
)
"""How the client of an inference behaves; the meaning of each is in inference.h."""
EVENT = ("after", "count", "cycle", "action", "address", "strobe", "data")
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


def abort_after(cycles: int) -> Event:
    """`abort` so many cycles after the start, 1 or more: none before can be offered."""
    return Event(cycles - 1, address=ADDRESS["control"], data=ABORT)


def seed_of(seed: int, number: int) -> int:
    """What the rests of inference `number` are drawn from."""
    return (seed + 0x9E3779B97F4A7C15 * number) % (1 << 64)


@dataclass(frozen=True)
class Packets:
    """Words of a stream and where `last` is set."""

    data: bytes
    last: bytes

    @staticmethod
    def whole(data: bytes, word_bytes: int) -> Packets:
        """One packet."""
        if len(data) % word_bytes:
            raise UserError(f"a stream of {len(data)} bytes is no whole words of {word_bytes}")
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

    @cached_property
    def lasts(self) -> np.ndarray:
        """Places of the words with `last`, uint32."""
        return np.flatnonzero(np.frombuffer(self.last, np.uint8)).astype(np.uint32)


@dataclass(frozen=True, kw_only=True)
class Inference:
    """One inference, good or bad.

    Cycle 0 is the first cycle of the register `cycles`, two cycles after the write of `start` was
    taken. Without `seed` and delays all sources stand ready before it, and a cycle model can mirror
    what comes: a token is offered each cycle, requests and logits are always taken. An offered word
    stays until it is taken.

    The sources offer ``model`` and ``tokens``; ``table`` are the rows of the embedding, int8. The
    row memory answers with ``row_words`` words, one a cycle after those of the rows asked for
    before, the first ``row_latency`` cycles after the request, and says nothing for ``row_silence``
    cycles. ``stream_bytes`` of the command stream come in a cycle (None: a word) from the first
    word that is taken on, into a buffer of ``stream_ahead`` words in front of the accelerator.

    The rests of all streams are drawn from ``seed``, of 64 bits; None: they never rest. With
    ``trace`` every write of a named intermediate is recorded. ``idle`` cycles pass before `start`
    is written, ``model_delay`` and ``tokens_delay`` from there to the streams (0: offered before);
    ``events`` are in the order in which they happen. ``patience`` cycles without any progress count
    as a hang, and ``longest`` with progress, of which 0 stands for any number. Errors call it
    ``name``.
    """

    model: Packets
    tokens: Packets
    table: np.ndarray = field(compare=False, repr=False)
    row_words: int
    row_latency: int = ROW_LATENCY
    row_silence: int = 0
    stream_bytes: int | None = None
    stream_ahead: int = 1
    client: Client = Client.NONE
    seed: int | None = None
    trace: bool = False
    idle: int = 0
    model_delay: int = 0
    tokens_delay: int = 0
    events: tuple[Event, ...] = ()
    patience: int = PATIENCE
    longest: int = 0
    name: str = "an inference"

    def but(self, **changes: Any) -> Self:
        """The same with other attributes."""
        return replace(self, **changes)

    @property
    def words(self) -> np.ndarray:
        """Of the tokens stream, uint32."""
        return np.frombuffer(self.tokens.data, "<u4")

    @cached_property
    def event_words(self) -> np.ndarray:
        """The events as inference.h has them, uint32 [events, 7]."""
        return np.array([[getattr(one, name) for name in EVENT] for one in self.events], np.uint32)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of each sequence."""
        return tuple(lengths_of(self.words))

    @property
    def exact(self) -> bool:
        """Whether its cycles are those of the cycle model."""
        pauses = self.seed, *map(bool, (self.row_silence, self.model_delay, self.tokens_delay))
        return pauses == (None, False, False, False) and not self.events


@dataclass(frozen=True, eq=False)
class Loaded:
    """A compiled model as the memories around the accelerator hold it.

    table
        `rtl.compile.program.embedding_table` of the model.
    """

    program: Program
    table: np.ndarray

    def __post_init__(self) -> None:
        table, lanes = self.table, self.program.config.lanes
        if table.dtype != np.int8 or table.ndim != 2 or table.shape[1] % lanes:
            due = f"it must be what embedding_table(model, {lanes}) gives"
            raise UserError(f"the table is {table.dtype}{list(table.shape)}: {due}")
        if zlib.crc32(table.tobytes()) != self.program.rows_crc:
            raise UserError(
                "the table is damaged or another model's than the program: give embedding_table of "
                "the model that was compiled"
            )

    @cached_property
    def stream(self) -> Packets:
        """The command stream."""
        return Packets.whole(self.program.stream(), self.program.config.stream_width)

    def inference(
        self,
        ids: Sequence[int] | np.ndarray,
        types: Sequence[int] | np.ndarray | None = None,
        attend: Sequence[int] | np.ndarray | None = None,
        lengths: Sequence[int] | None = None,
        **others: Any,
    ) -> Inference:
        """An inference of a sequence, or of a batch of these lengths.

        Types are 0 and all tokens attend when left out; others are attributes of `Inference`.
        """
        words = token_words(ids, types, attend, lengths)
        return Inference(
            model=self.stream,
            tokens=Packets.whole(words.astype("<u4").tobytes(), 4),
            table=self.table,
            row_words=self.table.shape[1] // self.program.config.lanes,
            **others,
        )


class Span(ctypes.Structure):
    """So many elements at an address."""

    _fields_ = [("data", ctypes.c_void_p), ("count", ctypes.c_uint64)]


class _Packets(ctypes.Structure):
    _fields_ = [("bytes", Span), ("lasts", Span)]


SAME = (
    *("row_words", "row_latency", "row_silence", "idle", "model_delay", "tokens_delay"),
    *("patience", "longest"),
)
NUMBERS = ("flags", "seed", "interval", "ahead", *SAME)


class Packed(ctypes.Structure):
    """The inference of inference.h. What its pointers show must be kept beside it."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        *(("model", _Packets), ("tokens", _Packets), ("table", Span)),
        *(("row_bytes", ctypes.c_uint64), ("events", Span)),
        *((name, ctypes.c_uint64) for name in NUMBERS),
    ]


def packed(one: Inference) -> Packed:
    """What `machine_play` takes; it holds while the inference does."""

    def span(of: np.ndarray, elements: int | None = None) -> Span:
        return Span(of.ctypes.data, of.size if elements is None else elements)

    def packets(of: Packets) -> _Packets:
        return _Packets(span(np.frombuffer(of.data, np.uint8)), span(of.lasts))

    width = one.model.word_bytes()
    return Packed(
        name=one.name.encode(),
        model=packets(one.model),
        tokens=packets(one.tokens),
        table=span(one.table),
        row_bytes=one.table.shape[1],
        events=span(one.event_words, len(one.events)),
        flags=one.client | STALL * (one.seed is not None) | TRACE * one.trace,
        seed=one.seed or 0,
        interval=ceil_div(width, one.stream_bytes or width),
        ahead=one.stream_ahead,
        **{name: getattr(one, name) for name in SAME},
    )

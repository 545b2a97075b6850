"""Streams in cocotb: sources and sinks with random pauses, and the memory that answers requests.

Inputs change at the falling edge of the clock; a word passes at the rising edge that follows if
`valid` and `ready` are both high then. Everything here waits for edges of the handshake itself, so
cycles in which nothing happens cost no Python.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from cocotb.triggers import Event, FallingEdge, RisingEdge, Timer
from cocotb.utils import get_sim_time

from tb.compare import Mismatch

PERIOD_NS = 10


def now() -> int:
    """The cycle in hand: it began with the rising edge before."""
    return int(get_sim_time("ns")) // PERIOD_NS


async def cycles(clock: Any, count: int) -> None:
    """Wait from a falling edge for the one that is `count` cycles away."""
    if count > 1:
        # To the rising edge before it: what ends at the same time as an edge may end before it.
        await Timer(count * PERIOD_NS - PERIOD_NS // 2, "ns")
    if count > 0:
        await FallingEdge(clock)


@dataclass(frozen=True)
class Pins:
    """The signals of a stream; a stream without `last` has None.

    Attributes
    ----------
    width
        Bits of the payload without `last`.
    """

    name: str
    data: Any
    valid: Any
    ready: Any
    last: Any
    width: int


@dataclass
class Passed:
    """Words that have passed on a stream.

    Attributes
    ----------
    count
        How many.
    first, latest
        Cycle of the first and of the latest.
    """

    count: int = 0
    first: int = -1
    latest: int = -1

    def word(self) -> None:
        self.latest = now()
        if self.count == 0:
            self.first = self.latest
        self.count += 1


@dataclass
class Source:
    """Offers words; once offered, a word stays until it is taken.

    Attributes
    ----------
    idle
        Probability of a pause of 1..8 cycles before a word.
    interval
        A word is offered so many cycles after the one before it was taken, or later.
    """

    pins: Pins
    clock: Any
    random: Random
    idle: float = 0.0
    interval: int = 1
    passed: Passed = field(default_factory=Passed)

    async def send(self, words: Sequence[int], *, last: bool = True) -> None:
        """Send the words, `last` with the last one unless it is never to come."""
        pins, taken = self.pins, -self.interval
        for place, word in enumerate(words):
            wait = taken + self.interval - now()
            if self.idle and self.random.random() < self.idle:
                wait = max(wait, 0) + self.random.randint(1, 8)
            if wait > 0:
                self._noise()
                await cycles(self.clock, wait)
            pins.data.value = word
            pins.last.value = int(last and place == len(words) - 1)
            pins.valid.value = 1
            while not pins.ready.value:
                await RisingEdge(pins.ready)
                await FallingEdge(self.clock)
            self.passed.word()
            taken = now()
            await FallingEdge(self.clock)
        self._noise()

    def _noise(self) -> None:
        """Nothing is offered: nobody may look at data or `last`."""
        pins = self.pins
        pins.valid.value = 0
        noise = self.random.getrandbits(pins.width + 1)
        pins.data.value = noise >> 1
        pins.last.value = noise & 1


@dataclass
class Sink:
    """Takes words and checks that an offered word stays until it is taken.

    Attributes
    ----------
    stall
        Probability of not being ready in a cycle.
    take
        Called with each word as it passes; with `last`, where there is one, as its top bit.
    """

    pins: Pins
    clock: Any
    random: Random
    take: Callable[[int], None]
    stall: float = 0.0
    passed: Passed = field(default_factory=Passed)

    def word(self) -> int:
        word = int(self.pins.data.value)
        if self.pins.last is not None:
            word |= int(self.pins.last.value) << self.pins.width
        return word

    async def serve(self) -> None:
        pins = self.pins
        pins.ready.value = int(not self.stall)
        while True:
            if not pins.valid.value:
                await RisingEdge(pins.valid)
                await FallingEdge(self.clock)
                continue
            word = self.word()
            while self.stall and self.random.random() < self.stall:
                pins.ready.value = 0
                await FallingEdge(self.clock)
                if not pins.valid.value or self.word() != word:
                    raise Mismatch(
                        f"{pins.name}: the word {word:#x} was withdrawn or changed in cycle {now()}"
                        ", before it was taken"
                    )
            pins.ready.value = 1
            self.passed.word()
            self.take(word)
            await FallingEdge(self.clock)
            if self.stall:
                pins.ready.value = self.random.getrandbits(1)


class Table(Protocol):
    """The words of each row."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> list[int]: ...


class Rows:
    """The embedding memory: takes row numbers, gives the rows' words after the latency.

    Parameters
    ----------
    request, rows
        Pins of the two streams.
    """

    def __init__(
        self,
        request: Pins,
        rows: Pins,
        clock: Any,
        random: Random,
        *,
        stall: float,
        idle: float,
        latency: int,
    ) -> None:
        self.table: Table = []
        self.latency, self.clock = latency, clock
        self.queue: deque[tuple[int, int]] = deque()
        self.asked = Event()
        self.sink = Sink(request, clock, random, self._asked, stall)
        self.source = Source(rows, clock, random, idle)

    def _asked(self, row: int) -> None:
        if row >= len(self.table):
            rows = len(self.table)
            raise Mismatch(f"row {row} is asked for in cycle {now()}: the table has {rows} rows")
        self.queue.append((row, now() + self.latency))
        self.asked.set()

    async def serve(self) -> None:
        while True:
            while not self.queue:
                self.asked.clear()
                await self.asked.wait()
            row, when = self.queue.popleft()
            await cycles(self.clock, when - now())
            await self.source.send(self.table[row])

"""Streams in cocotb: sources and sinks with random pauses, and the memory that answers requests.

Inputs change at the falling edge of the clock; a word passes at the rising edge that follows if
`valid` and `ready` are both high then. Everything here waits for edges of the handshake itself, so
cycles in which nothing happens cost no Python.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from cocotb.triggers import Event, FallingEdge, RisingEdge, Timer
from cocotb.utils import get_sim_time

from tb.case import Surroundings
from tb.cocotb_ports import CLOCK_NS
from tb.compare import Mismatch


def now() -> int:
    """The cycle in hand: it began with the rising edge before."""
    return int(get_sim_time("ns")) // CLOCK_NS


async def cycles(clock: Any, count: int) -> None:
    """Wait from a falling edge for the one that is `count` cycles away."""
    if count > 1:
        # To the rising edge before it: what ends at the same time as an edge may end before it.
        await Timer(count * CLOCK_NS - CLOCK_NS // 2, "ns")
    if count > 0:
        await FallingEdge(clock)


@dataclass(frozen=True)
class Pins:
    """The signals of a stream; a stream without `last` has None.

    width
        Bits of the payload without `last`.
    """

    name: str
    data: Any
    valid: Any
    ready: Any
    last: Any
    width: int


@dataclass(eq=False)
class Source:
    """Offers words; once offered, a word stays until it is taken.

    idle
        Probability of a pause of 1..8 cycles before a word.
    interval
        A word is offered so many cycles after the one before it was taken, or later.
    count
        Words that have passed.
    """

    pins: Pins
    clock: Any
    random: Random
    idle: float = 0.0
    interval: int = 1
    count: int = 0

    async def send(self, words: Sequence[int]) -> None:
        """Send the words, `last` with the last one."""
        pins, taken = self.pins, -self.interval
        for place, word in enumerate(words):
            wait = taken + self.interval - now()
            if self.idle and self.random.random() < self.idle:
                wait = max(wait, 0) + self.random.randint(1, 8)
            if wait > 0:
                self._noise()
                await cycles(self.clock, wait)
            pins.data.value = word
            pins.last.value = int(place == len(words) - 1)
            pins.valid.value = 1
            while not pins.ready.value:
                await RisingEdge(pins.ready)
                await FallingEdge(self.clock)
            taken, self.count = now(), self.count + 1
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

    stall
        Probability of not being ready in a cycle.
    take
        Called with each word as it passes; with `last`, where there is one, as its top bit.
    count, latest
        Words that have passed, and the cycle of the latest.
    """

    pins: Pins
    clock: Any
    random: Random
    take: Callable[[int], None]
    stall: float = 0.0
    count: int = 0
    latest: int = -1

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
                    what = f"{pins.name}: the word {word:#x} was withdrawn or changed"
                    raise Mismatch(f"{what} in cycle {now()}, before it was taken")
            pins.ready.value = 1
            self.latest, self.count = now(), self.count + 1
            self.take(word)
            await FallingEdge(self.clock)
            if self.stall:
                pins.ready.value = self.random.getrandbits(1)


class Rows:
    """The embedding memory: takes row numbers, gives the rows' words after the latency.

    table
        uint8 [rows, words, bytes of a word].
    given
        Rows that have come.
    """

    def __init__(
        self, request: Pins, rows: Pins, clock: Any, random: Random, around: Surroundings
    ) -> None:
        self.table, self.given = np.zeros((0, 0, 0), np.uint8), 0
        self.latency, self.clock = around.row_latency, clock
        self.queue: deque[tuple[int, int]] = deque()
        self.asked = Event()
        self.sink = Sink(request, clock, random, self._asked, around.stall)
        self.source = Source(rows, clock, random, around.idle)

    def _asked(self, row: int) -> None:
        rows = len(self.table)
        if row >= rows:
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
            await self.source.send([int.from_bytes(w.tobytes(), "little") for w in self.table[row]])
            self.given += 1

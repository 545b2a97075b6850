"""When the far ends of the streams give a word: a stream from outside, rows from a memory.

model
    From the first word that is taken on, one comes every `gap` = ceil(M / stream_bytes) cycles into
    a buffer of `ahead` words, and none while that is full. With `ahead` 1 a word is offered `gap`
    cycles after the one before it was taken.
tokens, request, logits
    A word a cycle.
rows
    The words of a row come `row_latency` cycles after its request was taken or later, in the order
    of the requests, a word a cycle.

Behind DMA they are `sim.cycles.dma`'s.
"""

from __future__ import annotations

from collections import deque

from rtl.control.embedding import MAX_PENDING
from rtl.primitives.memory import Memory


class Words:
    """The model stream: a word every `gap` cycles at most, up to `ahead` of them in a buffer."""

    def __init__(self, gap: int, ahead: int = 1) -> None:
        self.gap = gap
        self.came = 0  # cycle from which the word that was taken last was there
        self.taken: deque[int] = deque(maxlen=ahead)  # when the last words were taken

    def _comes(self, ready: int) -> int:
        if not self.taken:
            return max(ready, 0)
        room = self.taken[0] if len(self.taken) == self.taken.maxlen else 0
        return max(self.came, room) + self.gap

    def offer(self, ready: int) -> int:
        """First cycle from `ready` on in which the next word is there, which stays there."""
        return max(ready, self._comes(ready))

    def take(self, count: int, ready: int) -> int:
        """Cycle of the last of `count` words, taken by a unit that is ready from `ready` on."""
        if self.taken.maxlen == 1:  # without a buffer the others follow the first one
            self.came = self.offer(ready) + (count - 1) * self.gap
            self.taken.append(self.came)
            return self.came
        for _ in range(count):
            self.came = self._comes(ready)
            self.taken.append(max(ready, self.came))
            ready = self.taken[-1] + 1
        return ready - 1


class Rows:
    """The embedding rows: the words of each a cycle apart, `latency` cycles after its request."""

    def __init__(self, latency: int) -> None:
        self.latency = latency

    def begin(self, ask: int, words: int, count: int) -> None:
        """An EMBED: it asks for `count` rows of `words` words, for the first in cycle `ask`."""
        self.ask, self.words = ask, words
        self.taken: list[int] = []  # cycle in which each row's first word was taken
        self.arrived = 0  # first cycle in which the rows' next word can be taken

    def take(self, count: int, ready: int) -> int:
        """The cycle after the last word of so many rows, taken by a half that is free from `ready`
        on."""
        for _ in range(count):
            # Word `needed` must have come in an earlier cycle for this row to be asked for.
            needed = len(self.taken) * self.words - MAX_PENDING
            if needed >= 0:
                self.ask = max(self.ask, self.taken[needed // self.words] + needed % self.words + 1)
            first = max(self.ask + self.latency, self.arrived, ready)
            self.taken.append(first)
            self.arrived = first + self.words
            self.ask += 1 if len(self.taken) % 2 else 1 + Memory.latency
        return self.arrived

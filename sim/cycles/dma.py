"""The memory side in cycles: what of stream and rows has come, by the rules of rtl/dma.

Unlike the rest of the model this one goes cycle by cycle where something moves: address channel,
data channel and two buffers meet there. It knows no data, only which beats end what.

The memory takes an address in the cycle in which it is offered; the beats of a burst whose address
was taken in cycle t come one a cycle from cycle t + latency on, after those of the bursts before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from rtl.compile.image import HEADER, rows_offset
from rtl.compile.program import Program
from rtl.control.embedding import MAX_PENDING
from rtl.dma.bus import Bus, per_beat
from rtl.dma.row_addresses import most_row_words
from rtl.interface.config import Config, ceil_div
from rtl.interface.isa import Opcode
from rtl.primitives.memory import Memory
from sim.cycles.model import Inference, Prediction, checked
from sim.cycles.sources import Rows, Words

ROWS, MODEL = 0, 1


@dataclass
class Client:
    """A client of the read master, with its buffer: `Bursts` and `Words` of rtl/dma."""

    free: int  # beats of the buffer
    # Beats of each burst still to be asked for, as words that each beat completes.
    bursts: deque[list[int]] = field(default_factory=deque)
    offer: int = 0  # from this cycle on the next burst is offered
    words: deque[int] = field(default_factory=deque)  # of each beat in the memory of the buffer
    held: int = -1  # words left in the beat at its output; -1: none is there
    offered: bool = False  # a word, by the output register

    def cut(self, bus: Bus, width: int, address: int, words: int) -> None:
        """Add a region of words of so many bytes: bursts end at multiples of `bus.burst` beats."""
        size, several = per_beat(bus, width), max(width // bus.data_bytes, 1)
        beat, offset = address // bus.data_bytes, address % bus.data_bytes // width
        beats = ceil_div(offset + words, size) * several
        whole = [size if several == 1 else int(k % several == several - 1) for k in range(beats)]
        whole[0] -= offset
        whole[-1] -= beats * size // several - offset - words if several == 1 else 0
        at = 0
        while at < beats:
            length = min(bus.burst - (beat + at) % bus.burst, beats - at)
            self.bursts.append(whole[at : at + length])
            at += length

    @property
    def room(self) -> bool:
        """The buffer takes the next burst."""
        return self.free >= len(self.bursts[0])

    def still(self, now: int) -> bool:
        """Nothing moves in it unless a word is taken or a beat comes."""
        asks = bool(self.bursts) and (self.offer > now or self.room)
        full = self.offered and self.held > 0
        return not asks and (full or self.held < 0) and (self.held >= 0 or not self.words)

    def step(self, taken: bool, came: int | None) -> None:
        """A cycle of `Words`: output register, output of the buffer, memory of the buffer."""
        if self.held > 0 and (taken or not self.offered):
            self.offered, self.held = True, self.held - 1
            finished = self.held == 0
        else:
            self.offered = self.offered and not taken
            finished = self.held == 0  # part of a word
        if finished:
            self.free, self.held = self.free + 1, -1
        if self.words and self.held < 0:
            self.held = self.words.popleft()
        if came is not None:
            self.words.append(came)


class Fetch:
    """Read master, memory of that `latency` and buffers; `now` is the next cycle.

    model: address and words of the stream.
    """

    def __init__(self, bus: Bus, config: Config, latency: int, model: tuple[int, int]) -> None:
        self.bus, self.lanes, self.latency = bus, config.lanes, latency
        self.clients = (Client(bus.buffer), Client(bus.buffer))
        self.clients[MODEL].cut(bus, config.stream_width, *model)
        self.clients[MODEL].offer = 2
        self.now = self.outstanding = 0
        self.address: tuple[int, list[int]] | None = None  # in the register of the address channel
        self.beats: deque[tuple[int, int, int, bool]] = deque()  # from, client, words, last

    def step(self, ready: Sequence[bool] = (False, False)) -> tuple[bool, bool]:
        """A cycle; which clients' words are taken, if they are ready."""
        now, clients = self.now, self.clients
        taken = [client.offered and r for client, r in zip(clients, ready)]
        # What the addresses see is as of the cycle before.
        asking = [n for n, c in enumerate(clients) if c.bursts and c.offer <= now and c.room]
        chosen = asking[0] if asking and self.outstanding < self.bus.outstanding else None
        came: list[int | None] = [None, None]
        if self.beats and self.beats[0][0] <= now:
            _, number, came[number], last = self.beats.popleft()
            self.outstanding -= last
        for client, word, beat in zip(clients, taken, came):
            client.step(word, beat)
        if self.address is not None:
            number, burst = self.address
            begin, end = now + self.latency, len(burst) - 1
            self.beats.extend((begin + i, number, words, i == end) for i, words in enumerate(burst))
            self.address = None
        if chosen is not None:
            client = clients[chosen]
            burst = client.bursts.popleft()
            client.free -= len(burst)
            client.offer = now + 2
            self.outstanding += 1
            self.address = (chosen, burst)
        self.now += 1
        return taken[ROWS], taken[MODEL]

    def until(self, cycle: int) -> None:
        """Let time pass in which nothing is taken."""
        while self.now < cycle:
            idle = not self.beats and self.address is None
            if idle and all(client.still(self.now) for client in self.clients):
                self.now = cycle
            else:
                self.step()


class StreamWords(Words):
    """The command stream from memory."""

    def __init__(self, fetch: Fetch) -> None:
        self.fetch = fetch

    def offer(self, ready: int) -> int:
        self.fetch.until(ready)
        while not self.fetch.clients[MODEL].offered:
            self.fetch.step()
        return self.fetch.now

    def take(self, count: int, ready: int) -> int:
        fetch = self.fetch
        fetch.until(ready)
        while count:
            count -= fetch.step((False, True))[MODEL]
        return fetch.now - 1


class MemoryRows(Rows):
    """The embedding rows from memory; `rows` are their numbers as they are asked for."""

    def __init__(
        self, fetch: Fetch, base: int, row_bytes: int, rows: Iterator[int], steps: int
    ) -> None:
        self.fetch, self.base, self.row_bytes, self.rows = fetch, base, row_bytes, rows
        self.steps = steps

    def begin(self, ask: int, words: int, count: int) -> None:
        self.ask, self.words, self.left = ask, words, count
        self.asked = self.got = 0
        self.free = 0  # cycle from which the address unit takes a number
        self.regions: deque[tuple[int, int]] = deque()  # from, address: of the address unit

    def take(self, count: int, ready: int) -> int:
        fetch, client = self.fetch, self.fetch.clients[ROWS]
        needed = count * self.words
        while needed:
            now, pending = fetch.now, self.asked * self.words - self.got
            if self.left and now >= max(self.ask, self.free) and pending < MAX_PENDING:
                self.left -= 1
                self.asked += 1
                self.ask = now + 1 + (0 if self.asked % 2 else Memory.latency)
                address = self.base + next(self.rows) * self.row_bytes
                self.regions.append((now + 1 + self.steps, address))
                self.free = 1 << 62
            free = not client.bursts and client.offer - 1 <= now
            if free and self.regions and self.regions[0][0] <= now:
                _, address = self.regions.popleft()
                client.cut(fetch.bus, fetch.lanes, address, self.words)
                client.offer = now + 2
                self.free = now + 1
            came = fetch.step((now >= ready, False))[ROWS]
            needed -= came
            self.got += came
        return fetch.now


def row_numbers(
    program: Program, ids: Sequence[int], types: Sequence[int], lengths: Sequence[int]
) -> Iterator[int]:
    """The rows of a batch in the order in which they are asked for."""
    (embed,) = (step.values for step in program.steps if step.opcode is Opcode.EMBED)
    positions = chain.from_iterable(map(range, lengths))
    for position, token, kind in zip(positions, ids, types, strict=True):
        yield int(token)
        first = embed["token_rows"] + int(kind) * embed["position_rows"]
        yield first + embed["offset"] + position


def predict_dma(
    program: Program,
    ids: Sequence[int],
    types: Sequence[int],
    *,
    lengths: Sequence[int] | None = None,
    bus: Bus,
    latency: int,
    address: int = 0,
) -> Prediction:
    """The cycles of one inference of the accelerator with DMA.

    All tokens, of `ids` and `types`, were written before the start; `lengths` are those of the
    sequences of a batch. `bus` and `latency` are of the read master and of the memory, in which the
    image lies at `address`. UserError where a parameter is out of range, or the program computes no
    logits.
    """
    lengths = [len(ids)] if lengths is None else lengths
    checked(program, lengths, "latency", latency)
    lanes, config = program.config.lanes, program.config
    size = len(program.stream())
    (embed,) = (step.values for step in program.steps if step.opcode is Opcode.EMBED)
    row_bytes = (ceil_div(embed["channels"], lanes) << embed["wide"]) * lanes
    fetch = Fetch(bus, config, latency, (address + HEADER.size, size // config.stream_width))
    rows = MemoryRows(
        fetch,
        address + rows_offset(size),
        row_bytes,
        row_numbers(program, ids, types, lengths),
        ceil_div(most_row_words(config).bit_length(), 2),
    )
    return Inference(program, lengths, StreamWords(fetch), rows).predict()

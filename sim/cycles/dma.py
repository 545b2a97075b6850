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
from rtl.interface.command import Opcode
from rtl.interface.config import Config, ceil_div
from rtl.primitives.memory import Memory
from sim.cycles.model import Inference, Prediction, checked
from sim.cycles.sources import Rows, Words

ROWS, MODEL = 0, 1


@dataclass
class Client:
    """A client of the read master, with its buffer: `Bursts` and `Words` of rtl/dma.

    bursts
        Beats of each burst still to be asked for, as words that each beat completes.
    offer
        From this cycle on the next burst is offered.
    """

    free: int
    bursts: deque[list[int]] = field(default_factory=deque)
    offer: int = 0
    buffered: int = 0  # beats in the memory of the buffer
    words: deque[int] = field(default_factory=deque)  # of each beat in it, what it completes
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
    def still(self) -> bool:
        """Nothing moves in it unless a word is taken or a beat comes."""
        full = self.offered and self.held > 0
        return (full or self.held < 0) and (self.held >= 0 or self.buffered == 0)


class Fetch:
    """Read master, memory and buffers; `now` is the next cycle.

    Parameters
    ----------
    latency
        Of the memory.
    model
        Address and words of the stream.
    """

    def __init__(self, bus: Bus, config: Config, latency: int, model: tuple[int, int]) -> None:
        self.bus, self.lanes, self.latency = bus, config.lanes, latency
        self.clients = (Client(bus.buffer), Client(bus.buffer))
        self.clients[MODEL].cut(bus, config.stream_width, *model)
        self.clients[MODEL].offer = 2
        self.now = 0
        self.outstanding = 0
        self.address: tuple[int, list[int]] | None = None  # in the register of the address channel
        self.beats: deque[tuple[int, int, int, bool]] = deque()  # from, client, words, last

    def step(self, ready: Sequence[bool]) -> tuple[bool, bool]:
        """A cycle; which clients' words are taken, if they are ready."""
        now, bus = self.now, self.bus
        clients = self.clients
        taken = [client.offered and r for client, r in zip(clients, ready)]
        # What the addresses see is as of the cycle before.
        chosen = None
        if self.outstanding < bus.outstanding:
            for number in (ROWS, MODEL):
                client = clients[number]
                if client.bursts and client.offer <= now and client.free >= len(client.bursts[0]):
                    chosen = number
                    break
        came: list[int | None] = [None, None]
        if self.beats and self.beats[0][0] <= now:
            _, number, words, last = self.beats.popleft()
            came[number] = words
            self.outstanding -= last
        for client, word, beat in zip(clients, taken, came):
            self._buffer(client, word, beat)
        if self.address is not None:
            number, burst = self.address
            begin = now + self.latency
            for i, words in enumerate(burst):
                self.beats.append((begin + i, number, words, i == len(burst) - 1))
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

    @staticmethod
    def _buffer(client: Client, word: bool, came: int | None) -> None:
        """`Words` in a cycle: output register, output of the buffer, memory of the buffer."""
        reads = False
        if client.held >= 0:
            room = not client.offered or word
            if client.held == 0:  # part of a word
                reads = True
                if word:
                    client.offered = False
            elif room:
                client.offered = True
                client.held -= 1
                reads = client.held == 0
        elif word:
            client.offered = False
        client.free += reads
        if reads:
            client.held = -1
        if client.buffered and client.held < 0:
            client.buffered -= 1
            client.held = client.words.popleft()
        if came is not None:
            client.buffered += 1
            client.words.append(came)

    def until(self, cycle: int) -> None:
        """Let time pass in which nothing is taken."""
        while self.now < cycle:
            quiet = (
                not self.beats
                and self.address is None
                and all(client.still for client in self.clients)
                and all(
                    not client.bursts
                    or (client.offer <= self.now and client.free < len(client.bursts[0]))
                    for client in self.clients
                )
            )
            if quiet:
                self.now = cycle
            else:
                self.step((False, False))


class StreamWords(Words):
    """The command stream from memory."""

    def __init__(self, fetch: Fetch) -> None:
        self.fetch = fetch

    def offer(self, ready: int) -> int:
        self.fetch.until(ready)
        while not self.fetch.clients[MODEL].offered:
            self.fetch.step((False, False))
        return self.fetch.now

    def take(self, count: int, ready: int) -> int:
        fetch = self.fetch
        fetch.until(ready)
        while count:
            count -= fetch.step((False, True))[MODEL]
        return fetch.now - 1


class MemoryRows(Rows):
    """The embedding rows from memory.

    rows
        Numbers of the rows in the order in which they are asked for.
    """

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
            now = fetch.now
            if (
                self.left
                and now >= max(self.ask, self.free)
                and (self.asked * self.words - self.got < MAX_PENDING)
            ):
                self.left -= 1
                self.asked += 1
                self.ask = now + 1 + (0 if self.asked % 2 else Memory.latency)
                self.regions.append(
                    (now + 1 + self.steps, self.base + next(self.rows) * self.row_bytes)
                )
                self.free = 1 << 62
            if (
                self.regions
                and self.regions[0][0] <= now
                and not client.bursts
                and client.offer - 1 <= now
            ):
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

    Parameters
    ----------
    program
        A compiled model; its configuration is the accelerator's.
    ids, types
        The sequence; all its tokens were written before the start.
    lengths
        Tokens of each sequence of a batch; None: it is one.
    bus, latency
        The read master, and the memory: see above.
    address
        Where the image lies.

    Raises
    ------
    ValueError
        A parameter is out of range, or the program computes no logits.
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

"""Exercise of the attention unit cycle by cycle: its streams, its writes, its end and its counters.

It takes ports alone, so that it plays in a simulator and on a library (`sim.machine.unit`) alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from rtl.interface.command import Flag, Opcode, walked_keys
from rtl.interface.config import Config, ceil_div
from rtl.interface.operation import Error
from tb.case import Inference
from tb.compare import Comparison, Mismatch, Recorded
from tb.packing import lengths_of, pack, stream_words
from tb.ports import UnitPorts
from tb.trace import TRACE_PORTS, elements

SILENCE = 1500
"""Cycles without a word or a write that are a hang: more than a row tile of the longest takes."""

LONGEST = 50_000
"""Cycles of an inference that never ends, though words or writes go on."""

OUTPUT_INTERVAL = 4
"""Cycles from a word of `o` to the next, when each is taken at once."""

ABORT_CYCLES = 2
"""From `abort` to `done`, when no word of `o` has been offered."""


@dataclass
class Source:
    """Offers the words that are queued; what is not offered is noise.

    Attributes
    ----------
    idle
        Probability of a pause of 1 to 8 cycles before a word.
    packets
        Taken so far.
    """

    name: str
    width: int
    random: Random
    idle: float = 0.0
    words: list[int] = field(default_factory=list)
    pause: int = 0
    packets: int = 0
    offered: bool = False
    quiet: bool = False

    def packet(self, words: Iterable[int]) -> None:
        """Queue words, `last` with the last of them."""
        found = list(words)
        found[-1] |= 1 << self.width
        self.words += found

    def offer(self, ports: UnitPorts) -> None:
        """Offer the word in turn, unless one is offered; noise where there is a pause."""
        if self.offered:
            return
        if self.words:
            if self.pause == 0 and self.random.random() < self.idle:
                self.pause = self.random.randint(1, 8)
            self.offered = self.pause == 0
            self.pause = max(self.pause - 1, 0)
        if self.offered:
            ports.set(f"{self.name}__valid", 1)
            ports.set(f"{self.name}__payload", self.words[0])
        elif not self.quiet:
            ports.set(f"{self.name}__valid", 0)
            ports.set(f"{self.name}__payload", self.random.getrandbits(self.width + 1))
        self.quiet = not self.offered

    def passes(self, ports: UnitPorts) -> bool:
        """Whether the unit takes the word that is offered."""
        if not self.offered or not ports.get(f"{self.name}__ready"):
            return False
        self.packets += self.words.pop(0) >> self.width
        self.offered = False
        return True

    def withdraw(self) -> None:
        """Nothing more is offered."""
        self.words, self.offered, self.pause = [], False, 0
        self.quiet = False


@dataclass
class Seen:
    """What came of one inference.

    Attributes
    ----------
    words, cycles
        Of `o`, `last` as the top bit, and the cycle of each.
    busy
        Cycles in which the unit was busy.
    """

    recorded: dict[str, Recorded]
    words: list[int] = field(default_factory=list)
    cycles: list[int] = field(default_factory=list)
    busy: int = 0
    error: Error = Error.NONE
    aborted: bool = False


class Bench:
    """The unit in its surroundings; from reset on, one inference after the other.

    idle, stall
        Probabilities of a pause of a source, and of a cycle in which the sink is not ready.
    """

    def __init__(
        self, ports: UnitPorts, *, idle: float = 0.0, stall: float = 0.0, seed: int = 1
    ) -> None:
        self.ports, self.stall = ports, stall
        self.random = Random(seed)
        self.facts = ports.sheet["ports"]
        self.config = Config(**ports.config)
        self.lanes = self.config.lanes
        self.width: int = self.facts["o__payload"]["width"] - 1  # of the data of `o`
        self.cycle = 0
        self.held: int | None = None  # the word of `o` that was offered and not taken
        self.traces = [group for group in TRACE_PORTS if group[0] in self.facts]
        self.model, self.tokens, self.rows = (
            Source(name, self.facts[f"{name}__payload"]["width"] - 1, self.random, idle)
            for name in ("model", "tokens", "i")
        )
        self.sources = (self.model, self.tokens, self.rows)
        self.queued: list[Inference] = []
        self.seen = self._nothing()
        self.busy = self.done = False

    def _nothing(self) -> Seen:
        recorded = {}
        for _, _, names in self.traces:
            for name in names:
                recorded[name] = Recorded(*elements(self.config.tokens)[name], self.lanes)
        return Seen(recorded)

    async def tick(self) -> bool:
        """A cycle: offer, look at everything, go on; whether a word passed or was written."""
        ports, seen = self.ports, self.seen
        for source in self.sources:
            source.offer(ports)
        ready = not self.stall or self.random.random() >= self.stall
        ports.set("o__ready", int(ready))
        await ports.settle()
        self.busy, self.done = bool(ports.get("busy")), bool(ports.get("done"))
        seen.busy += self.busy
        moved = sum(source.passes(ports) for source in self.sources) > 0
        word = ports.get("o__payload") if ports.get("o__valid") else None
        if self.held is not None and word != self.held:
            raise Mismatch(f"a word of `o` was withdrawn or changed in cycle {self.cycle}")
        self.held = None if ready else word
        if word is not None and ready:
            seen.words.append(word)
            seen.cycles.append(self.cycle)
        moved |= self._record() or word is not None
        if not self.busy and (moved or self.done):
            raise Mismatch(f"the unit takes, gives or writes words while idle, cycle {self.cycle}")
        await ports.tick()
        self.cycle += 1
        return moved

    def _record(self) -> bool:
        ports, found = self.ports, False
        for enable, where, names in self.traces:
            if ports.get(enable):
                found = True
                for name in names:
                    recorded = self.seen.recorded[name]
                    recorded.cycle.append(self.cycle)
                    recorded.address.append(0 if where is None else ports.get(where))
                    recorded.word.append(pack(ports.get(f"trace_{name}"), recorded.width))
        return found

    async def rest(self, cycles: int) -> None:
        """Cycles in which nothing may happen."""
        for _ in range(cycles):
            await self.tick()

    async def idle_pulses(self) -> None:
        """`abort`, and `start` together with it, while nothing runs: neither does anything."""
        for start in (0, 1):
            self.ports.set("abort", 1)
            self.ports.set("start", start)
            await self.tick()
            self.ports.set("abort", 0)
            self.ports.set("start", 0)
            await self.rest(2)

    def queue(self, inference: Inference, *, tokens: bool = True) -> None:
        """Give the sources the inference's packets, behind those that are there."""
        self.queued.append(inference)
        self.model.packet(stream_words(inference.stream, self.config.stream_width))
        if tokens:
            self.tokens.packet(inference.tokens.tolist())
        self._give_rows(inference)

    def _give_rows(self, inference: Inference) -> None:
        if inference.activations is not None:
            self.rows.packet(inference.activation_words())

    async def run(
        self, inference: Inference, *, late: bool = False, after: int = 0, again: bool = False
    ) -> Seen:
        """Start, and go on to the end.

        late
            The tokens come when the command stream was taken, and not with it.
        after
            They come after so many cycles, if any.
        again
            Write `start` in every cycle, of which the unit must take the first alone.
        """
        ports = self.ports
        self.seen = self._nothing()
        self.queued.remove(inference)
        before = [source.packets for source in self.sources]
        ports.set("start", 1)
        await self.tick()
        ports.set("start", int(again))
        abort = -2 if inference.interruption is None else inference.interruption[1]
        quiet, cycle, aborted = 0, 0, 0
        self.done = False
        while not self.done:
            if cycle == abort:
                self.seen.aborted, aborted = True, self.cycle
            if abort <= cycle <= abort + 1:
                ports.set("abort", int(cycle == abort))
            if (late and not self.model.words) or (after and cycle == after):
                self.tokens.packet(inference.tokens.tolist())
                late = False
            quiet = 0 if await self.tick() or cycle < after else quiet + 1
            cycle += 1
            if not self.busy:
                raise Mismatch(f"{inference.name}: idle in cycle {cycle}, and it has not ended")
            if quiet > SILENCE:
                raise Mismatch(f"{inference.name}: nothing has happened for {SILENCE} cycles")
            if cycle > after + LONGEST:
                raise Mismatch(f"{inference.name}: it has not ended in {LONGEST} cycles")
        ports.set("start", 0)
        ports.set("abort", 0)
        await ports.settle()
        self.seen.error = Error(ports.get("error"))
        counted = ports.get("cycles")
        if counted != self.seen.busy:
            raise Mismatch(f"cycles is {counted}: the unit was busy in {self.seen.busy}")
        if self.seen.error is Error.ABORTED and self.cycle - aborted > ABORT_CYCLES:
            raise Mismatch(f"the unit ends {self.cycle - aborted} cycles after an abort")
        if self.seen.error is Error.ABORTED:
            self.queued = []
            for source in self.sources:
                source.withdraw()
            return self.seen
        taken = [source.packets - count for source, count in zip(self.sources, before)]
        if taken[:2] != [1, 1]:
            raise Mismatch(f"{inference.name}: {taken[:2]} packets were taken of model and tokens")
        if self.seen.error is not Error.NONE:  # nobody takes the rest of the activations
            self.rows.withdraw()
            for other in self.queued:
                self._give_rows(other)
        return self.seen


def active_cycles(inference: Inference, steps: Sequence[Any], config: Config) -> int:
    """Operands of all tiles of a program's steps.

    A LINEAR has column tiles x row tiles of K operands, with WIDE twice; an ATTEND for each head
    and row tile as many score tiles of d operands as there are key tiles, and column tiles of V of
    as many operands as there are keys, with WINDOW those that it walks. With several ways a tile
    has what lies at one address of them: key tiles, words of V, and row tiles of a TRANSPOSED
    LINEAR.
    """
    lanes, columns, ways = config.lanes, config.tile_columns, config.ways
    lengths = lengths_of(inference.tokens)
    total = 0
    for step in steps:
        values, single = step.values, Flag.FIRST_TILE in step.flags
        if step.opcode is Opcode.LINEAR:
            operands = values["length"] * (2 if Flag.WIDE in step.flags else 1)
            if Flag.TRANSPOSED in step.flags and ways > 1:
                groups = ceil_div(sum(ceil_div(tokens, lanes) for tokens in lengths), ways)
                total += ceil_div(values["columns"], lanes) * groups * operands
                continue
            rows = sum(1 if single else ceil_div(tokens, lanes) for tokens in lengths)
            total += ceil_div(values["columns"], columns) * rows * operands
        elif step.opcode is Opcode.ATTEND:
            size, begin = values["head_size"], 0
            words = ceil_div(size, lanes)
            for tokens in lengths:
                tiles = ceil_div(tokens, lanes)
                for row in range(1 if single else tiles):
                    keys = walked_keys(step.flags, values["window"], row, tokens, lanes)
                    first = begin + keys.start // lanes
                    scores = _tiles(first, ceil_div(len(keys), lanes), ways) * size
                    for head in range(values["heads"]):
                        total += scores + _tiles(head * words, words, ways) * len(keys)
                begin += tiles
    return total


def _tiles(first: int, words: int, ways: int) -> int:
    """Tiles of so many words of operand B, each of those that have one address."""
    return (first + words - 1) // ways - first // ways + 1


def check(bench: Bench, inference: Inference, seen: Seen, steps: Sequence[Any] = ()) -> None:
    """Compare an inference with what had to come; steps: of its program, for the counter.

    Raises
    ------
    Mismatch
        Naming the first difference.
    """
    name, wanted = inference.name, {inference.error}
    if seen.aborted:
        wanted.add(Error.ABORTED)
    if seen.error not in wanted:
        raise Mismatch(f"{name}: the code is {seen.error.name}, not {inference.error.name}")
    whole = seen.error is inference.error is Error.NONE
    comparison = Comparison()
    if inference.writes is not None:
        for port in seen.recorded:
            comparison.writes(
                port,
                [writes for writes in inference.writes if writes.port == port],
                seen.recorded[port],
                whole=whole,
                addressed=port not in ("max", "sum"),
            )
    width = bench.width
    result = Recorded(8, True, bench.lanes, seen.cycles)
    result.word = [word & (1 << width) - 1 for word in seen.words]
    if whole and inference.result is not None:
        comparison.writes("result", [inference.result], result, whole=True, addressed=False)
        comparison.check()
        lasts = [word >> width for word in seen.words]
        if lasts != [0] * (len(lasts) - 1) + [1]:
            raise Mismatch(f"{name}: `last` does not come with the last word of `o` alone")
        steps_of_o = np.diff(seen.cycles)
        if not bench.stall and (steps_of_o != OUTPUT_INTERVAL).any():
            raise Mismatch(f"{name}: words of `o` come {steps_of_o.tolist()} cycles apart")
        active, counted = active_cycles(inference, steps, bench.config), 0
        if steps:
            counted = bench.ports.get("active_cycles")
        if steps and counted != active:
            raise Mismatch(f"{name}: active_cycles is {counted}, not {active}")
    else:
        if seen.words:
            raise Mismatch(f"{name}: {len(seen.words)} words of `o` came, none may come")
        if comparison.first is not None or comparison.problem:
            comparison.check()

"""Plays a case on an accelerator, inferences one after the other, and records what it shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge, First, RisingEdge, Timer

from rtl.interface.config import Config
from tb.accelerator import ABORT, START, AcceleratorMachine
from tb.case import Inference, Surroundings
from tb.cocotb_ports import CLOCK_NS
from tb.monitor import Monitor
from tb.packing import stream_words
from tb.streams import Rows, Sink, Source, cycles, now


@dataclass
class Seen:
    """What the accelerator showed of one inference, as sim/accelerator.py reads it."""

    facts: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


class Session:
    """The accelerator in its surroundings, for one case."""

    def __init__(self, machine: AcceleratorMachine, around: Surroundings) -> None:
        self.machine, self.around = machine, around
        self.clock = machine.dut.clk
        self.random = Random(around.seed)
        config = Config(**machine.sheet["configuration"])
        self.lanes, self.width = config.lanes, config.stream_width
        self.monitor = Monitor(machine.dut, machine.sheet)
        self.result: list[int] = []
        self.sink = Sink(machine.result, self.clock, self.random, self._take, around.stall)
        self.memory = Rows(machine.request, machine.rows, self.clock, self.random, around)
        self.lasting: list[Any] = []
        longest, paused = max(config.tokens, config.hidden, config.ffn), 16 * around.interval
        # Without a stall nothing takes longer than a few passes over the longest operand.
        self.silence = 8 * longest + 64 * self.lanes + around.row_latency + paused + 1000

    def _take(self, word: int) -> None:
        self.result.append(word)

    def _watch(self) -> None:
        """Start what lasts from reset to reset: monitors, sinks and the embedding memory."""
        self.memory.queue.clear()
        self.memory.given = self.memory.sink.count
        coroutines = [*self.monitor.watch(), self.sink.serve()]
        coroutines += [self.memory.sink.serve(), self.memory.serve()]
        self.lasting = [cocotb.start_soon(coroutine) for coroutine in coroutines]

    async def _reset(self) -> None:
        for task in self.lasting:
            task.cancel()
        for pins in (self.machine.model, self.machine.tokens, self.machine.rows):
            pins.valid.value = 0
        await self.machine.reset()
        self._watch()

    async def play(self, inferences: list[Inference]) -> list[Seen]:
        """All inferences, up to the first that does not end."""
        self._watch()
        found: list[Seen] = []
        for inference in inferences:
            found.append(await self._inference(inference))
            if found[-1].facts["end"] not in ("done", "reset"):
                break
        return found

    async def _inference(self, inference: Inference) -> Seen:
        machine, around = self.machine, self.around
        rows = inference.rows
        self.memory.table = rows.reshape(len(rows), -1, self.lanes).view(np.uint8)
        self.monitor.clear()
        self.result, self.sink.count = [], 0
        model = Source(machine.model, self.clock, self.random, around.idle, around.interval)
        tokens = Source(machine.tokens, self.clock, self.random, around.idle)
        given = {model: stream_words(inference.stream, self.width)}
        given[tokens] = inference.tokens.tolist()
        tasks: list[Any] = []

        def offer() -> None:
            tasks.extend(cocotb.start_soon(source.send(words)) for source, words in given.items())

        # The streams may be there before the start, and may come later.
        early = bool(around.idle) and self.random.random() < 0.5
        if early:
            offer()
            await cycles(self.clock, self.random.randint(1, 20))
        await machine.write("control", START)
        start, interrupted = now(), ""
        if not early:
            offer()
        if inference.interruption is not None:
            kind, after = inference.interruption
            if not await self._ended(Timer(after * CLOCK_NS, "ns")):
                interrupted = kind
        if interrupted == "abort":
            await machine.write("control", ABORT)
        seen = Seen({"end": interrupted, "status": 0, "counters": [], "progress": 0})
        if interrupted != "reset":
            await self._finish(seen, start, [model, tokens])
        seen.facts |= {
            "interrupted": interrupted,
            "silence": self.silence,
            "took": now() - start,
            "model_taken": model.count,
            "tokens_taken": tokens.count,
            "rows_pending": self.memory.sink.count - self.memory.given,
            "latest": self.sink.latest,
            "stall": int(machine.dut.trace_stall.value),
        }
        for source, task in zip(given, tasks):
            task.cancel()
            source.pins.valid.value = 0
        if interrupted == "reset":
            await self._reset()
        elif seen.facts["end"] == "done":
            seen.facts["status"], seen.facts["counters"] = await machine.outcome()
        self._show(seen)
        return seen

    async def _ended(self, limit: Timer) -> bool:
        """Wait for the end of the inference or for the timer; whether it has ended."""
        if self.machine.ended.value:
            return True
        await First(RisingEdge(self.machine.ended), limit)
        await FallingEdge(self.clock)
        return bool(self.machine.ended.value)

    async def _finish(self, seen: Seen, start: int, sources: list[Source]) -> None:
        """Wait for the end, as long as anything happens."""
        before, seen.facts["end"] = -1, "done"
        while not await self._ended(Timer(self.silence * CLOCK_NS, "ns")):
            streams: list[Source | Sink] = [*sources, self.sink]
            streams += [self.memory.sink, self.memory.source]
            moved = sum(each.count for each in streams) + self.monitor.written
            if moved == before or now() - start > self.around.longest:
                seen.facts["end"] = "hang" if moved == before else "too long"
                seen.facts["progress"] = now() - start - self.silence
                break
            before = moved

    def _show(self, seen: Seen) -> None:
        """Add the words of the result, `last` as their top bit, writes and what has changed."""
        seen.arrays["result"] = np.array(self.result, np.int64)
        for name, changes in self.monitor.changes.items():
            seen.arrays[f"changes.{name}"] = np.array(changes, np.int64).T
        for name, port in self.monitor.recorded.items():
            size = -(-port.width * port.length // 8)
            words = b"".join(word.to_bytes(size, "little") for word in port.word)
            seen.arrays[f"{name}.word"] = np.frombuffer(words, np.uint8).reshape(-1, size)
            seen.arrays[f"{name}.cycle"] = np.array(port.cycle, np.int64)
            seen.arrays[f"{name}.address"] = np.array(port.address, np.int64)

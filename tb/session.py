"""Plays a case on an accelerator: inferences one after the other, with everything compared."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from cli.files import write_json

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge, First, RisingEdge, Timer

from rtl.interface.config import Config
from rtl.interface.operation import Error
from tb import activity
from tb.accelerator import ABORT, START, AcceleratorMachine
from tb.case import Case, Inference
from tb.cocotb_ports import CLOCK_NS
from tb.compare import Comparison, Mismatch, Recorded
from tb.monitor import Monitor
from tb.packing import stream_words
from tb.streams import Rows, Sink, Source, cycles, now


@dataclass
class Played:
    """What has come of one inference."""

    inference: Inference
    start: int
    comparison: Comparison = field(default_factory=Comparison)
    problems: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """What is wrong with it; empty if nothing is."""
        found = self.comparison.message(), *self.problems, self.comparison.problem
        return next(filter(None, found), "")


class Session:
    """The accelerator in its surroundings, for one case.

    active
        Record what the accelerator does in each cycle.
    """

    def __init__(self, machine: AcceleratorMachine, case: Case, *, active: bool = False) -> None:
        self.machine, self.case = machine, case
        self.clock = machine.dut.clk
        self.random = Random(case.seed)
        config = Config(**machine.sheet["configuration"])
        self.lanes, self.width = config.lanes, config.stream_width
        self.monitor = Monitor(machine.dut, machine.sheet, stalls=active)
        self.result = Recorded(machine.result.width, False, 1)
        self.sink = Sink(machine.result, self.clock, self.random, self._take, case.stall)
        self.memory = Rows(machine.request, machine.rows, self.clock, self.random, case)
        self.lasting: list[Any] = []
        longest = max(config.tokens, config.hidden, config.ffn)
        # Without a stall nothing takes longer than a few passes over the longest operand.
        self.silence = 8 * longest + 64 * self.lanes + case.row_latency + 16 * case.interval + 1000

    def _take(self, word: int) -> None:
        self.result.cycle.append(now())
        self.result.word.append(word)

    def _watch(self) -> None:
        """Start what lasts from reset to reset: monitors, sinks and the embedding memory."""
        self.memory.queue.clear()
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

    async def play(self) -> AsyncIterator[Played]:
        """All inferences of the case, up to the first that is wrong."""
        self._watch()
        for inference in self.case.inferences:
            played = await self._inference(inference)
            yield played
            if played.message:
                break

    async def _inference(self, inference: Inference) -> Played:
        machine, case = self.machine, self.case
        rows = inference.rows
        self.memory.table = rows.reshape(len(rows), -1, self.lanes).view(np.uint8)
        self.monitor.clear()
        self.result = Recorded(machine.result.width, False, 1)
        self.sink.count = 0
        model = Source(machine.model, self.clock, self.random, case.idle, case.interval)
        tokens = Source(machine.tokens, self.clock, self.random, case.idle)
        given = {model: stream_words(inference.stream, self.width)}
        given[tokens] = inference.tokens.tolist()
        tasks: list[Any] = []

        def offer() -> None:
            tasks.extend(cocotb.start_soon(source.send(words)) for source, words in given.items())

        # The streams may be there before the start, and may come later.
        early = bool(case.idle) and self.random.random() < 0.5
        if early:
            offer()
            await cycles(self.clock, self.random.randint(1, 20))
        await machine.write("control", START)
        played = Played(inference, now())
        if not early:
            offer()
        interrupted, left = "", list[str]()
        if inference.interruption is not None:
            kind, after = inference.interruption
            if not await self._ended(Timer(after * CLOCK_NS, "ns")):
                interrupted = kind
        if interrupted == "abort":
            await machine.write("control", ABORT)
        if interrupted != "reset":
            await self._finish(played, [model, tokens])
        for source, task in zip(given, tasks):
            count, words = source.count, len(given[source])
            if not task.done() and count < words:
                left.append(f"{count} of {words} words were taken from a stream")
            task.cancel()
            source.pins.valid.value = 0
        if interrupted == "reset":
            await self._reset()
        await self._judge(played, interrupted, left)
        return played

    async def _ended(self, limit: Timer) -> bool:
        """Wait for the end of the inference or for the timer; whether it has ended."""
        if self.machine.ended.value:
            return True
        await First(RisingEdge(self.machine.ended), limit)
        await FallingEdge(self.clock)
        return bool(self.machine.ended.value)

    async def _finish(self, played: Played, sources: list[Source]) -> None:
        """Wait for the end, as long as anything happens."""
        expected = sum(len(w.address) for w in played.inference.writes or ())
        before = -1
        while not played.problems and not await self._ended(Timer(self.silence * CLOCK_NS, "ns")):
            streams: list[Source | Sink] = [*sources, self.sink]
            streams += [self.memory.sink, self.memory.source]
            moved = sum(each.count for each in streams) + self.monitor.written
            if moved == before:
                hangs = f"the unit hangs: nothing happened for {self.silence} cycles, now {now()}"
                played.problems.append(hangs)
            elif played.inference.writes is not None and self.monitor.written > 2 * expected + 4096:
                played.problems.append(f"the unit runs away: cycle {now()}")
            before = moved

    async def _judge(self, played: Played, interrupted: str, left: list[str]) -> None:
        """Compare what came with what had to come.

        An abort that comes when the result is on its way out, or later, changes nothing: the code
        is NONE, and all that a whole inference gives must be there. With ABORTED nothing may come.

        left
            What is wrong about the input streams of an inference that ran to its end.
        """
        inference, comparison = played.inference, played.comparison
        whole = not interrupted and inference.error is Error.NONE
        code = Error.NONE
        counters: dict[str, Any] = {}
        if interrupted != "reset" and not played.problems:
            code, counters = await self.machine.outcome()
            # What came before the abort keeps its code.
            wanted = {inference.error} | ({Error.ABORTED} if interrupted else set())
            if code not in wanted:
                names = " or ".join(sorted(error.name for error in wanted))
                played.problems.append(f"the error code is {code.name}, not {names}")
            if interrupted:
                whole = code is inference.error is Error.NONE
            if whole or not interrupted:
                played.problems += left
        if inference.writes is not None:
            comparison.ports(inference.writes, self.monitor.recorded, whole=whole)
        values = self._result(played, whole, cut=interrupted == "reset")
        played.facts |= {
            "name": inference.name,
            "error": code.name,
            "interrupted": interrupted,
            **counters,
            "result": values,
            "operations": self.monitor.operations(inference.operations, played.start),
            "compared": dict(comparison.compared),
            "mismatches": dict(comparison.mismatches),
            "first_difference": played.message or None,
        }

    def _result(self, played: Played, whole: bool, cut: bool) -> list[list[int]]:
        """Compare the words of the result stream; returns them.

        A reset may cut a result off that has begun: what came of it must be right.
        """
        inference, width = played.inference, self.machine.result.width
        expected, words = inference.result, np.array(self.result.word, np.int64)
        taken = Recorded(width, True, 1, self.result.cycle)
        taken.word = (words & (1 << width) - 1).tolist()
        cut_off = cut and inference.error is Error.NONE
        if expected is not None and (whole or cut_off):
            comparison = played.comparison
            comparison.writes("result", [expected], taken, whole=not cut_off, addressed=False)
            if not cut_off and (words >> width).tolist() != inference.ends.astype(int).tolist():
                played.problems.append("`last` does not come with the last word of a result alone")
        elif taken.word:
            played.problems.append(f"{len(taken.word)} words of a result came, none may come")
        values: list[list[int]] = taken.values(len(taken.word)).tolist()
        return values


async def check_case(machine: AcceleratorMachine, case: Case, digest: str = "") -> None:
    """Play a case, write the report to the file that BERT2RTL_REPORT names, and raise Mismatch.

    digest
        SHA-256 of the case's file; the report carries it, and so says which case it answers.

    Where BERT2RTL_ACTIVITY names a file, it gets the record of the last inference's activity.
    """
    wanted = os.environ.get("BERT2RTL_ACTIVITY")
    session = Session(machine, case, active=wanted is not None)
    results = [played async for played in session.play()]
    if wanted is not None and results[-1].facts["result"]:
        cycles, end = results[-1].facts["cycles"], session.sink.latest
        activity.write(wanted, activity.recorded(session.monitor, digest, cycles, end))
    if "BERT2RTL_REPORT" in os.environ:
        report = {"case": digest, "inferences": [played.facts for played in results]}
        write_json(os.environ["BERT2RTL_REPORT"], report)
    for number, played in enumerate(results):
        if played.message:
            raise Mismatch(f"inference {number} ({played.inference.name}): {played.message}")
    if not sum(played.comparison.compared.total() for played in results):
        raise Mismatch("nothing was compared")

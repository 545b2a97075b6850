"""Plays a case on an accelerator: inferences one after the other, with everything compared."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from cli.files import write_json

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge, First, RisingEdge, Timer

from rtl.interface.config import Config
from rtl.interface.operation import Error
from tb import activity
from tb.accelerator import AcceleratorMachine
from tb.case import Case, Inference, read_case
from tb.compare import Comparison, Mismatch, Recorded
from tb.monitor import Monitor
from tb.packing import stream_words
from tb.streams import PERIOD_NS, Passed, Rows, Sink, Source, cycles, now


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
        return next(filter(None, [self.comparison.message(), *self.problems, self.missing]), "")

    @property
    def missing(self) -> str:
        """Words that were not written, or too many."""
        return self.comparison.problem


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
        self.memory = Rows(
            machine.request,
            machine.rows,
            self.clock,
            self.random,
            stall=case.stall,
            idle=case.idle,
            latency=case.row_latency,
        )
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

    async def play(self) -> list[Played]:
        """All inferences of the case, up to the first that is wrong."""
        self._watch()
        results = []
        for inference in self.case.inferences:
            began = time.monotonic()
            played = await self._inference(inference)
            played.facts["seconds"] = round(time.monotonic() - began, 3)
            results.append(played)
            if played.message:
                break
        return results

    def _sources(self, inference: Inference) -> list[tuple[Source, Sequence[int], bool]]:
        case, machine = self.case, self.machine
        words = stream_words(inference.stream, self.width)
        return [
            (
                Source(machine.model, self.clock, self.random, case.idle, case.interval),
                words,
                inference.complete,
            ),
            (
                Source(machine.tokens, self.clock, self.random, case.idle),
                inference.tokens.tolist(),
                True,
            ),
        ]

    async def _inference(self, inference: Inference) -> Played:
        machine = self.machine
        packed = inference.rows.reshape(len(inference.rows), -1, self.lanes).view(np.uint8)
        self.memory.table = _Table(packed)
        self.monitor.clear()
        self.result = Recorded(machine.result.width, False, 1)
        self.sink.passed = Passed()
        sources = self._sources(inference)
        tasks = []
        # The streams may be there before the start, and may come later.
        early = bool(self.case.idle) and self.random.random() < 0.5
        if early:
            tasks = [cocotb.start_soon(s.send(words, last=last)) for s, words, last in sources]
            await cycles(self.clock, self.random.randint(1, 20))
        await machine.start()
        played = Played(inference, now())
        if not early:
            tasks = [cocotb.start_soon(s.send(words, last=last)) for s, words, last in sources]
        passed = [source.passed for source, _, _ in sources]
        interrupted = ""
        left: list[str] = []
        if inference.interruption is not None:
            kind, after = inference.interruption
            if not await self._ended(Timer(after * PERIOD_NS, "ns")):
                interrupted = kind
        if interrupted == "reset":
            for task in tasks:
                task.cancel()
            await self._reset()
        else:
            if interrupted == "abort":
                await machine.abort()
            await self._finish(played, passed)
            for (_, words, _), task, count in zip(sources, tasks, passed):
                if not task.done():
                    task.cancel()
                    if count.count < len(words):
                        left.append(f"{count.count} of {len(words)} words were taken from a stream")
            for pins in (machine.model, machine.tokens):
                pins.valid.value = 0
        await self._judge(played, interrupted, passed[1], left)
        return played

    async def _ended(self, limit: Timer) -> bool:
        """Wait for the end of the inference or for the timer; whether it has ended."""
        if self.machine.ended.value:
            return True
        await First(RisingEdge(self.machine.ended), limit)
        await FallingEdge(self.clock)
        return bool(self.machine.ended.value)

    async def _finish(self, played: Played, passed: list[Passed]) -> None:
        """Wait for the end, as long as anything happens."""
        expected = sum(len(w.address) for w in played.inference.writes or ())
        before = -1
        while True:
            if await self._ended(Timer(self.silence * PERIOD_NS, "ns")):
                return
            passing = [*passed, self.sink.passed]
            passing += [self.memory.sink.passed, self.memory.source.passed]
            moved = sum(each.count for each in passing) + self.monitor.written
            if moved == before:
                played.problems.append(
                    f"the unit hangs: nothing happened for {self.silence} cycles, now {now()}"
                )
            elif played.inference.writes is not None and self.monitor.written > 2 * expected + 4096:
                played.problems.append(f"the unit runs away: cycle {now()}")
            else:
                before = moved
                continue
            return

    async def _judge(
        self, played: Played, interrupted: str, tokens: Passed, left: list[str]
    ) -> None:
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
            ports = {w.port for w in inference.writes} | set(self.monitor.recorded)
            for port in sorted(ports):
                comparison.writes(
                    port,
                    [w for w in inference.writes if w.port == port],
                    self.monitor.recorded[port],
                    whole=whole,
                    addressed=port not in ("max", "sum"),
                )
        values = self._result(played, whole, cut=interrupted == "reset")
        played.facts |= {
            "name": inference.name,
            "tokens": len(inference.tokens),
            "error": code.name,
            "interrupted": interrupted,
            **counters,
            "span": self.sink.passed.latest - tokens.first + 1 if values else 0,
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
        expected, width = played.inference.result, self.machine.result.width
        mask = (1 << width) - 1
        lasts = [word >> width for word in self.result.word]
        taken = Recorded(width, True, 1, self.result.cycle)
        taken.word = [word & mask for word in self.result.word]
        values: list[list[int]] = taken.values(len(taken.word)).tolist()
        if cut and expected is not None and played.inference.error is Error.NONE:
            played.comparison.writes("result", [expected], taken, whole=False, addressed=False)
            return values
        if not whole or expected is None:
            if values:
                played.problems.append(f"{len(values)} words of a result came, none may come")
            return values
        played.comparison.writes("result", [expected], taken, whole=True, addressed=False)
        if lasts != played.inference.ends.astype(int).tolist():
            played.problems.append("`last` does not come with the last word of a result alone")
        return values


class _Table:
    """Rows of the embedding table as words, made when they are asked for."""

    def __init__(self, packed: np.ndarray) -> None:
        self.packed = packed

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, row: int) -> list[int]:
        return [int.from_bytes(word.tobytes(), "little") for word in self.packed[row]]


async def check_case(machine: AcceleratorMachine, case: Case, digest: str = "") -> None:
    """Play a case, write the report to the file that BERT2RTL_REPORT names, and raise Mismatch.

    digest
        SHA-256 of the case's file; the report carries it, and so says which case it answers.

    Where BERT2RTL_ACTIVITY names a file, it gets the record of the last inference's activity.
    """
    wanted = os.environ.get("BERT2RTL_ACTIVITY")
    session = Session(machine, case, active=wanted is not None)
    results = await session.play()
    if wanted is not None and results[-1].facts["result"]:
        cycles, end = results[-1].facts["cycles"], session.sink.passed.latest
        activity.write(wanted, activity.recorded(session.monitor, digest, cycles, end))
    if "BERT2RTL_REPORT" in os.environ:
        report = {
            "case": digest,
            "simulator": cocotb.SIM_NAME,
            "lanes": machine.sheet["configuration"]["lanes"],
            "inferences": [played.facts for played in results],
        }
        write_json(os.environ["BERT2RTL_REPORT"], report)
    for number, played in enumerate(results):
        if played.message:
            raise Mismatch(f"inference {number} ({played.inference.name}): {played.message}")
    if not sum(played.comparison.compared.total() for played in results):
        raise Mismatch("nothing was compared")


async def check_case_file(machine: AcceleratorMachine) -> None:
    """`check_case` of the file that BERT2RTL_CASE names."""
    content = Path(os.environ["BERT2RTL_CASE"]).read_bytes()
    await check_case(machine, read_case(content), sha256(content).hexdigest())

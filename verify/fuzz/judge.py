"""Whether what a case showed is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from rtl.interface.operation import Error
from sim.machine.inference import Action, Client, Packets
from sim.machine.result import Result
from sim.verdict import verdict
from verify.fuzz.account import Right, account
from verify.fuzz.subject import Case, Run

DONE = 2  # of the bits of status, beside busy


def judge(case: Case, shown: Sequence[tuple[int, Result]]) -> list[str]:
    """What is wrong with what `verify.fuzz.play.shown` gives, a line each; none when nothing is."""
    found: list[str] = []
    model = tokens = Packets(b"", b"")
    ready = True  # its sources, before it began
    for place, seen in shown:
        run = case.runs[place]
        rests = [bool(seen.model_rest), bool(seen.tokens_rest)]
        logits = None if any(rests) else run.logits
        if all(rests):
            logits = case.runs[place - 1].behind
        model = model if seen.model_rest else run.model
        tokens = tokens if seen.tokens_rest else run.tokens
        given = model.after(seen.model_from), tokens.after(seen.tokens_from)
        found += [f"run {place}: {text}" for text in _run(run, seen, *given, logits, ready)]
        ready = seen.status >= 0
    return found + [text for _, seen in shown for text in seen.wrong]


def _run(
    run: Run,
    seen: Result,
    model: Packets,
    tokens: Packets,
    logits: tuple[int, ...] | None,
    ready: bool,
) -> Iterator[str]:
    end, status = seen.end, seen.status
    allowed = account(model, tokens, run.row_words, run.subject.config)
    right = set(allowed.codes) | set(run.others)
    names = " or ".join(sorted(code.name for code in right))
    ends = ("done", "rescued", "reset") if Error.ABORTED in right else ("done", "reset")
    if end not in ends:
        yield f"{end} after {seen.took} cycles; right would be {names}"
    if end not in ends or end == "reset" or status < 0:
        return
    if status & 3 != DONE:
        yield f"status is {status:#x} after the end: not done, or busy"
    number = status >> 8 & 15
    code = Error(number) if number in set(Error) else None
    if code not in right:
        yield f"code {code.name if code is not None else number}; right would be {names}"
        return
    assert code is not None
    wanted = sorted(allowed.failing.get(code, {0}))
    if seen.sequence not in wanted:
        yield f"failed_sequence is {seen.sequence} with {code.name}; right would be {wanted}"
    aborts = end == "rescued" or any(event.action is Action.WRITE for event in run.events)
    if seen.rows_pending:
        yield f"ended with {seen.rows_pending} rows still to come"
    if not (aborts and code is not Error.NONE):
        for name, packets, taken in (
            ("command stream", model, seen.model_taken - seen.model_from),
            ("tokens", tokens, seen.tokens_taken - seen.tokens_from),
        ):
            packet = packets.first()
            if packet is not None and taken != len(packet.last):
                yield f"{taken} words of the {name} were taken, the packet has {len(packet.last)}"
    whole = not (run.client & Client.KEEP or seen.model_rest or seen.tokens_rest)
    if code is Error.NONE and logits is not None and whole:
        own = run.subject.program, run.subject.model, np.array(logits)
        yield from verdict(seen, *own, exact=ready).problems
    else:
        yield from _logits(logits, allowed, seen, code)


def _logits(
    expected: tuple[int, ...] | None, allowed: Right, seen: Result, code: Error
) -> Iterator[str]:
    logits, lasts = tuple(seen.logits.tolist()), list(seen.lasts)
    wanted = [last - 1 for last in accumulate(allowed.packets) if last <= len(logits)]
    if lasts != wanted:
        yield f"{len(logits)} logits came with `last` at {lasts}"
    if code is Error.NONE:
        if expected is not None and logits != expected:
            yield f"logits are {list(logits)}, golden says {list(expected)}"
        elif len(logits) != sum(allowed.packets):
            yield f"{len(logits)} logits came, the stream asks for {sum(allowed.packets)}"
        elif not logits:
            yield "code NONE without a logit"
    elif logits:
        yield f"logits {list(logits)} came with the code {code.name}"

"""Whether what a case showed is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from rtl.interface.operation import Error
from verify.fuzz.account import Verdict, account
from verify.fuzz.job import Action, Case, Client, Packets, Run
from verify.fuzz.subject import Subject

BUSY, DONE = 1, 2


def judge(case: Case, subjects: Sequence[Subject], facts: dict[str, Any]) -> list[str]:
    """What is wrong with the case, a line each; none when nothing is.

    case, subjects
        As `verify.fuzz.cases.built` gives them.
    facts
        The line of JSON that verify/fuzz/main.cpp printed.
    """
    found: list[str] = []
    plan, place = list(zip(case.runs, subjects)), 0
    model = tokens = Packets(b"", b"")
    for seen in facts["runs"]:
        run, subject = plan[place]
        again = run.client & Client.REST and seen["end"] != "skipped"
        rests = [bool(seen.get(f"{name}_rest")) for name in ("model", "tokens")]
        logits = None if any(rests) else run.logits
        if all(rests):
            logits = plan[place - 1][0].behind
        model = model if seen.get("model_rest") else run.model
        tokens = tokens if seen.get("tokens_rest") else run.tokens
        if seen["end"] != "skipped":
            found += [
                f"run {place}: {text}"
                for text in _run(
                    run,
                    subject,
                    seen,
                    model.after(seen["model_from"]),
                    tokens.after(seen["tokens_from"]),
                    logits,
                )
            ]
        left = seen["model_taken"] < len(model.last) or seen["tokens_taken"] < len(tokens.last)
        if not (again and left):
            place += 1
    return found + facts["wrong"]


def _run(
    run: Run,
    subject: Subject,
    seen: dict[str, Any],
    model: Packets,
    tokens: Packets,
    logits: tuple[int, ...] | None,
) -> Iterator[str]:
    end = seen["end"]
    verdict = account(model, tokens, run.row_words, subject.config)
    right = set(verdict.codes) | set(run.others)
    names = " or ".join(sorted(code.name for code in right))
    if end == "reset" or (end == "rescued" and Error.ABORTED in right):
        pass
    elif end != "done":
        yield f"{end} after {seen['cycles']} cycles; right would be {names}"
        return
    if end == "reset" or seen["status"] < 0:
        return
    status = seen["status"]
    if status & 3 != DONE:
        yield f"status is {status:#x} after the end: not done, or busy"
    number = status >> 8 & 15
    code = Error(number) if number in set(Error) else None
    if code not in right:
        yield f"code {code.name if code is not None else number}; right would be {names}"
        return
    assert code is not None
    if seen["sequence"] not in verdict.failing.get(code, {0}):
        wanted = sorted(verdict.failing.get(code, {0}))
        yield f"failed_sequence is {seen['sequence']} with {code.name}; right would be {wanted}"
    aborts = end == "rescued" or any(event.action is Action.WRITE for event in run.events)
    if seen["rows_pending"]:
        yield f"ended with {seen['rows_pending']} rows still to come"
    if not (aborts and code is not Error.NONE):
        for name, packets, taken in (
            ("command stream", model, seen["model_taken"] - seen["model_from"]),
            ("tokens", tokens, seen["tokens_taken"] - seen["tokens_from"]),
        ):
            packet = packets.first()
            if packet is not None and taken != len(packet.last):
                yield f"{taken} words of the {name} were taken, the packet has {len(packet.last)}"
    yield from _logits(logits, verdict, seen, code)


def _logits(
    expected: tuple[int, ...] | None, verdict: Verdict, seen: dict[str, Any], code: Error
) -> Iterator[str]:
    logits, lasts = tuple(seen["logits"]), seen["lasts"]
    wanted = [last - 1 for last in accumulate(verdict.packets) if last <= len(logits)]
    if lasts != wanted:
        yield f"{len(logits)} logits came with `last` at {lasts}"
    if code is Error.NONE:
        if expected is not None and logits != expected:
            yield f"logits are {list(logits)}, golden says {list(expected)}"
        elif len(logits) != sum(verdict.packets):
            yield f"{len(logits)} logits came, the stream asks for {sum(verdict.packets)}"
        elif not logits:
            yield "code NONE without a logit"
    elif logits:
        yield f"logits {list(logits)} came with the code {code.name}"

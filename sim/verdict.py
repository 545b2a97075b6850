"""The verdict on an inference of the machine or the cocotb bench, for all that play one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from cli.errors import Different

import numpy as np

from golden import encoder
from golden.model import Model
from rtl.compile.program import Program
from rtl.interface.operation import Error
from sim.cycles.model import Prediction, predict
from sim.machine.inference import STREAMS, Inference
from sim.machine.result import Result
from tb.compare import Comparison
from tb.expected import expected_writes
from tb.packing import ATTEND_BIT, ID_MASK, TYPE_BIT, last_places
from tb.trace import CAUSES

OPERATIONS = 256
"""Steps of a program up to which the number of an operation is its own."""
PREDICTIONS = 2_000
"""That are kept."""


@dataclass(frozen=True)
class Verdict:
    """What is wrong, a line each; empty when every bit and cycle is right.

    By tensor how many values were ``compared``, and how many are ``mismatches``.
    """

    problems: tuple[str, ...]
    compared: Counter[str]
    mismatches: Counter[str]

    def __bool__(self) -> bool:
        return bool(self.problems)


def verdict(
    result: Result,
    program: Program,
    model: Model,
    logits: np.ndarray | None = None,
    *,
    exact: bool = True,
) -> Verdict:
    """Hold a good inference to golden and to the cycle model.

    Compared are all logits, where a trace was recorded every write of every named intermediate, and
    without rests the counters and the cycles of every operation.

    ``logits`` are what golden says of them, where that is known; ``exact`` is whether its sources
    were ready when it began.
    """
    comparison, problems = Comparison(), list(result.wrong)
    inference = result.inference
    if text := failure(result):
        problems.append(text)
    elif result.code:
        known = result.code in set(Error)
        problems.append(f"ended with the error {result.error.name if known else result.code}")
    else:
        traces, wanted = expected_of(inference, model, logits)
        if result.logits.size != wanted.size:
            problems.append(f"{result.logits.size} logits came, golden has {wanted.size}")
        else:
            comparison.compared["logits"] += wanted.size
            if wrong := int((result.logits != wanted).sum()):
                comparison.mismatches["logits"] += wrong
                said, due = result.logits.tolist(), wanted.tolist()
                problems.append(f"logits are {said}, golden says {due}")
        every = model.shape.pooling == "none"
        ends = last_places(inference.lengths, wanted.size, every).tolist()
        if list(result.lasts) != ends:
            problems.append(f"`last` comes with the logits {list(result.lasts)}, not {ends}")
        if result.writes:
            attend = (inference.words & ATTEND_BIT) > 0
            expected = expected_writes(program, traces, inference.lengths, attend)
            comparison.ports(expected, result.writes, whole=True)
            problems += filter(None, [comparison.problem, comparison.message()])
        if exact and inference.exact:
            problems += unpredicted(result, program)
    return Verdict(tuple(problems), comparison.compared, comparison.mismatches)


def failure(result: Result) -> str:
    """What no inference may do, good or bad; "" for nothing."""
    inference = result.inference
    words, tokens = len(inference.model.last), len(inference.tokens.last)
    streams = (
        f"command stream word {result.model_taken} of {words}, token {result.tokens_taken} of "
        f"{tokens}"
    )
    if result.beyond >= 0:
        return f"row {result.beyond} was asked for, the table has {len(inference.table)}"
    if result.end == "too long":
        return f"still at it after {inference.longest} cycles"
    if result.end == "hang":
        return (
            f"no progress for {inference.patience} cycles since cycle {result.progress}: the array "
            f"says {('none', *CAUSES)[result.stall]}; {streams}, {result.rows_pending} rows asked "
            f"for and not taken, {result.logits.size} logits"
        )
    if result.end != "done":
        return f"{result.end} after {result.took} cycles"
    if result.rows_pending:
        return f"ended with {result.rows_pending} rows still to come"
    if result.code:
        return f"failed, but gave {result.logits.size} logits" if result.logits.size else ""
    taken = result.model_taken, result.tokens_taken, len(result.lasts)
    left = f"ended well with words left: {streams}, {len(result.lasts)} logits with `last`"
    return "" if taken == (words, tokens, len(inference.lengths)) else left


def expected_of(
    inference: Inference, model: Model, logits: np.ndarray | None
) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    """Traces of the sequences, and the logits; none are traced where the inference is not."""
    words, traces = inference.words.astype(np.int64), list[dict[str, np.ndarray]]()
    if logits is None or inference.trace:
        parts = words & ID_MASK, (words & TYPE_BIT) // TYPE_BIT, (words & ATTEND_BIT) // ATTEND_BIT
        wanted = traces if inference.trace else None
        found = encoder.run_batch(model, *parts, inference.lengths, wanted)
        if logits is not None and not np.array_equal(found.reshape(-1), logits.reshape(-1)):
            raise Different("golden and golden.fast differ: no comparison is valid")
        logits = found
    return traces, logits.reshape(-1)


_predictions: dict[tuple[object, ...], tuple[Program, Prediction]] = {}


def _predicted(inference: Inference, program: Program) -> Prediction:
    """Kept for as long as the program: many inferences are as long as others."""
    streams = {name: getattr(inference, name) for name in STREAMS}
    key = id(program), inference.lengths, *streams.values()
    if key not in _predictions:
        if len(_predictions) >= PREDICTIONS:
            _predictions.clear()
        _predictions[key] = program, predict(program, inference.lengths, **streams)
    return _predictions[key][1]


def unpredicted(result: Result, program: Program) -> Iterator[str]:
    """What the cycle model says otherwise of an inference without rests."""
    said = _predicted(result.inference, program)
    seen = {"cycles": result.cycles, "active": result.active} | result.stalls
    due = {"cycles": said.cycles, "active": said.active} | said.stalls
    wrong = [f"{name} {seen[name]:,}, not {due[name]:,}" for name in due if seen[name] != due[name]]
    if wrong:
        yield f"not as predicted: {', '.join(wrong)}"
    phases = [(p.number, p.first, p.last, p.active, p.stalls) for p in said.phases]
    shown = result.operations
    if len(program.steps) <= OPERATIONS and phases != shown:
        place = next(i for i, pair in enumerate(zip_longest(phases, shown)) if pair[0] != pair[1])
        yield f"operation {place} of the inference is {shown[place : place + 1]}, not as predicted"

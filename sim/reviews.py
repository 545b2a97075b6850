"""Some reviews on the simulated accelerator, each held to golden: the share of one worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from golden import encoder
from golden.model import Model
from quant.foreign.tokenizer import Tokens
from rtl.compile.program import Program
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.harness import fast

SHARE = 8
"""Inferences of a worker at a time; some seconds each."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all reviews share.

    Attributes
    ----------
    rows
        `embedding_table` of the model.
    stream_bytes, stream_ahead, row_latency
        As for `sim.harness.fast.simulate_each`.
    stalls
        Seed of the rests on every stream; None: none.
    """

    model: Model
    config: Config
    program: Program
    rows: np.ndarray
    stream_bytes: int | None
    stream_ahead: int
    row_latency: int
    stalls: int | None


@dataclass(frozen=True)
class Review:
    """A review, golden's logits of it, and whether all intermediates are compared."""

    tokens: Tokens
    golden: np.ndarray
    traced: bool


@dataclass(frozen=True)
class Verdict:
    """Values compared, how many differ, and what is wrong ("" when nothing is) of one review.

    What several reviews of an inference share (its cycles, and the intermediates) is counted with
    the first of them.
    """

    logits: np.ndarray
    cycles: int
    simulated: int
    values: int
    mismatches: int
    problem: str


Share = tuple[int, list[list[Review]]]
"""Number of its first inference, and the reviews of each."""


def shares(reviews: Sequence[Review], batches: Sequence[Sequence[int]]) -> dict[str, Share]:
    """The cases of `cli.workers.each`, by the number of the first inference."""
    together = [[reviews[place] for place in batch] for batch in batches]
    return {
        f"inference {first}": (first, together[first : first + SHARE])
        for first in range(0, len(together), SHARE)
    }


def simulate(setup: Setup, share: Share) -> list[Verdict]:
    """The verdicts on the reviews of a share, in their order.

    Raises
    ------
    HarnessError, SimulatorError
        As `sim.harness.fast.simulate_each`.
    """
    first, batches = share
    jobs = [
        fast.Job(
            setup.program,
            setup.rows,
            np.concatenate([review.tokens.ids for review in batch]),
            np.concatenate([review.tokens.types for review in batch]),
            trace=any(review.traced for review in batch),
            lengths=[len(review.tokens.ids) for review in batch],
        )
        for batch in batches
    ]
    # The harness draws from the seed and the number of the job in its file.
    seed = None if setup.stalls is None else (setup.stalls + first) % (1 << 64)
    results = fast.simulate(
        setup.config,
        jobs,
        stream_bytes=setup.stream_bytes,
        stream_ahead=setup.stream_ahead,
        row_latency=setup.row_latency,
        seed=seed,
    )
    pairs = zip(batches, results, strict=True)
    return [verdict for batch, result in pairs for verdict in check(setup, batch, result)]


def check(setup: Setup, batch: Sequence[Review], result: fast.Result) -> list[Verdict]:
    """Hold the result of an inference to golden, review by review."""
    *ends, size = np.cumsum([review.golden.size for review in batch])
    whole = result.error is Error.NONE and result.logits.size == size
    parts = [result.logits] * len(batch)
    if whole:
        parts = [
            logits.reshape(review.golden.shape)
            for review, logits in zip(batch, np.split(result.logits, ends), strict=True)
        ]
    found = []
    for place, (review, logits) in enumerate(zip(batch, parts, strict=True)):
        values, mismatches, problem = _logits(review, logits, result)
        cycles = simulated = 0
        if place == 0:
            cycles, simulated = result.cycles, result.simulated
            if result.writes and whole:
                more, wrong, first = _intermediates(setup, batch, result)
                values, mismatches, problem = values + more, mismatches + wrong, first or problem
        found.append(Verdict(logits, cycles, simulated, values, mismatches, problem))
    return found


def _logits(review: Review, logits: np.ndarray, result: fast.Result) -> tuple[int, int, str]:
    golden = review.golden
    if result.error != Error.NONE:
        return 0, 0, f"ended with the error {result.error.name}"
    if logits.shape != golden.shape:
        return 0, 0, f"{logits.size} logits came, golden has {golden.size}"
    mismatches = int((logits != golden).sum())
    differs = f"logits are {logits.tolist()}, golden says {golden.tolist()}"
    return golden.size, mismatches, differs * bool(mismatches)


def _intermediates(
    setup: Setup, batch: Sequence[Review], result: fast.Result
) -> tuple[int, int, str]:
    traces: list[dict[str, np.ndarray]] = []
    for review in batch:
        traces.append({})
        tokens = review.tokens
        plain = encoder.run(setup.model, tokens.ids, tokens.types, trace=traces[-1])
        if (plain != review.golden).any():
            return 0, 0, "golden and golden.fast differ: no comparison is valid"
    lengths = [len(review.tokens.ids) for review in batch]
    comparison = fast.compare(setup.program, traces, lengths, result)
    problem = comparison.problem or comparison.message() * bool(comparison.first)
    return comparison.compared.total(), comparison.mismatches.total(), problem

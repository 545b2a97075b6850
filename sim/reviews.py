"""Some reviews on the simulated accelerator, each held to golden: the share of one worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from golden import encoder
from golden.model import Model
from quant.tokenizer import Tokens
from rtl.compile.program import Program
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.harness import fast

SHARE = 8
"""Reviews of a worker at a time; some seconds each."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all reviews share.

    Attributes
    ----------
    rows
        `embedding_table` of the model.
    stream_bytes, row_latency
        As for `sim.harness.fast.simulate_each`.
    stalls
        Seed of the rests on every stream; None: none.
    """

    model: Model
    config: Config
    program: Program
    rows: np.ndarray
    stream_bytes: int | None
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
    """Values compared, how many differ, and what is wrong ("" when nothing is) of one review."""

    logits: np.ndarray
    cycles: int
    simulated: int
    values: int
    mismatches: int
    problem: str


def shares(reviews: Sequence[Review]) -> dict[str, tuple[int, Sequence[Review]]]:
    """The cases of `cli.workers.each`: the reviews by the number of the first."""
    return {
        f"review {first}": (first, reviews[first : first + SHARE])
        for first in range(0, len(reviews), SHARE)
    }


def simulate(setup: Setup, share: tuple[int, Sequence[Review]]) -> list[Verdict]:
    """The verdicts on a share, in its order.

    Raises
    ------
    HarnessError, SimulatorError
        As `sim.harness.fast.simulate_each`.
    """
    first, reviews = share
    jobs = [
        fast.Job(
            setup.program,
            setup.rows,
            review.tokens.ids,
            review.tokens.types,
            trace=review.traced,
        )
        for review in reviews
    ]
    # The harness draws from the seed and the number of the job in its file.
    seed = None if setup.stalls is None else (setup.stalls + first) % (1 << 64)
    results = fast.simulate(
        setup.config,
        jobs,
        stream_bytes=setup.stream_bytes,
        row_latency=setup.row_latency,
        seed=seed,
    )
    return [check(setup, review, result) for review, result in zip(reviews, results)]


def check(setup: Setup, review: Review, result: fast.Result) -> Verdict:
    """Hold a result to golden."""
    values, mismatches, problem = _differences(setup, review, result)
    return Verdict(result.logits, result.cycles, result.simulated, values, mismatches, problem)


def _differences(setup: Setup, review: Review, result: fast.Result) -> tuple[int, int, str]:
    golden, tokens = review.golden, review.tokens
    if result.error != Error.NONE:
        return 0, 0, f"ended with the error {result.error.name}"
    if result.logits.shape != golden.shape:
        return 0, 0, f"{result.logits.size} logits came, golden has {golden.size}"
    values, mismatches, problem = golden.size, int((result.logits != golden).sum()), ""
    if mismatches:
        problem = f"logits are {result.logits.tolist()}, golden says {golden.tolist()}"
    if result.writes:
        trace: dict[str, np.ndarray] = {}
        plain = encoder.run(setup.model, tokens.ids, tokens.types, trace=trace)
        if (plain != golden).any():
            return values, mismatches, "golden and golden.fast differ: no comparison is valid"
        comparison = fast.compare(setup.program, trace, len(tokens.ids), result)
        values += comparison.compared.total()
        mismatches += comparison.mismatches.total()
        problem = comparison.problem or comparison.message() * bool(comparison.first) or problem
    return values, mismatches, problem

"""Which remedies a model gets: those with which its logits on the calibration texts are nearest.

All are tried together, and taken where they take a fifth of the mean error of the logits away or
more. Each is then left out in turn, and stays out where that takes a fifth of what is left: less is
chance, on as few texts as calibration reads. A model without error keeps the plain contract,
without copies or a rewriting.
"""

from collections.abc import Callable, Sequence
from math import inf

LEFT = 0.8  # of an error, at most, for a change of remedies to be made
NONE = "none"
TOKENS = 8192  # of the calibration texts that the choice is made on

Trials = dict[tuple[str, ...], float]


def joined(names: Sequence[str]) -> str:
    """A combination in a description."""
    return "+".join(names) or NONE


def named(names: Sequence[str]) -> str:
    """A combination in a sentence."""
    return ", ".join(names) or NONE


def better(before: float, error: float) -> bool:
    """Whether remedies with this error take the place of those with the error before."""
    return error < before and error <= LEFT * before


def choose(
    remedies: Sequence[str], error: Callable[[tuple[str, ...]], float]
) -> tuple[tuple[str, ...], Trials]:
    """The remedies to take, and the error of every combination that was tried."""
    trials: Trials = {}

    def tried(names: tuple[str, ...]) -> float:
        if names not in trials:
            trials[names] = error(names)
        return trials[names]

    chosen, plain = tuple(remedies), tried(())
    if not better(plain, tried(chosen)) and plain < inf:
        return (), trials
    for name in remedies:
        rest = tuple(other for other in chosen if other != name)
        if better(tried(chosen), tried(rest)):
            chosen = rest
    return chosen, trials

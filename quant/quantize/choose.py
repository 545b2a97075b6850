"""Which remedies a model gets: those with which its logits on the calibration texts are nearest.

All are tried together first. They are taken where they at least halve the mean error of the logits;
a model that gains less keeps the plain contract, without copies or a rewriting. Of those taken,
each is then left out in turn, and stays out where that takes a fifth of the error away: less is
chance, on as few texts as calibration reads.
"""

from collections.abc import Callable, Sequence

GAIN = 0.5  # of the plain contract's error, for remedies to be taken at all
HARM = 0.8  # of the error with a remedy, for that without it: the remedy stays out
TOKENS = 8192  # of the calibration texts that the choice is made on

Trials = dict[tuple[str, ...], float]


def choose(
    remedies: Sequence[str], error: Callable[[tuple[str, ...]], float]
) -> tuple[tuple[str, ...], Trials]:
    """The remedies to take, and the error of every combination that was tried."""
    trials: Trials = {}

    def tried(names: tuple[str, ...]) -> float:
        if names not in trials:
            trials[names] = error(names)
        return trials[names]

    chosen = tuple(remedies)
    if tried(chosen) > GAIN * tried(()):
        return (), trials
    for name in remedies:
        rest = tuple(other for other in chosen if other != name)
        if tried(rest) < HARM * tried(chosen):
            chosen = rest
    return chosen, trials

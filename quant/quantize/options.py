"""The options of a calibration, and the choice of its remedies.

A model gets the remedies with which its logits on the calibration texts are nearest. All are tried
together, and taken where they take a fifth of the mean error of the logits away or more. Each is
then left out in turn, and stays out where that takes a fifth of what is left: less is chance, on as
few texts as calibration reads. A model without error keeps the plain contract, without copies or a
rewriting.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from quant.model.spec import EncoderSpec
from quant.quantize.splitting import splittable

LEFT = 0.8  # of an error, at most, for a change of remedies to be made
NONE = "none"
TOKENS = 8192  # of the calibration texts that the choice is made on

REMEDIES = ("centre", "balance", "split", "shift", "wide", "round")
"""Remedies for networks whose channels differ much, see docs/numerics.md section 10.

centre, balance: quant.quantize.rewriting; split: quant.quantize.splitting; shift, wide:
quant.quantize.encoder; round: quant.quantize.rounding.
"""


def idle(spec: EncoderSpec) -> dict[str, str]:
    """The remedies that change nothing of such an encoder, and why."""
    if spec.gated:
        return {"split": "a gate multiplies the codes, so no bias takes up their offset"}
    if not splittable(spec.activation):
        return {"split": f"{spec.activation} does not end as the identity and as 0"}
    return {}


def applicable(spec: EncoderSpec) -> tuple[str, ...]:
    """The remedies that may change such an encoder."""
    return tuple(name for name in REMEDIES if name not in idle(spec))


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices of a calibration."""

    remedies: tuple[str, ...] | None = None  # None: none, unless `calibrate` chooses
    precise: bool = False  # operands of 16 bits where there may be such


def named(names: Sequence[str]) -> str:
    """A combination in a sentence."""
    return ", ".join(names) or NONE


def better(before: float, error: float) -> bool:
    """Whether remedies with this error take the place of those with the error before."""
    return error < before and error <= LEFT * before


def choose(
    remedies: Sequence[str], error: Callable[[tuple[str, ...]], float]
) -> tuple[tuple[str, ...], dict[tuple[str, ...], float]]:
    """The remedies to take, and the error of every combination that was tried."""
    trials: dict[tuple[str, ...], float] = {}

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

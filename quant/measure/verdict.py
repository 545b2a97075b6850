"""Is a quantized model good? What falls below the bounds, in which channels, and what to try.

The reason of each bound is in docs/numerics.md, "When a calibration is poor".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quant.measure.compare import TensorError
from quant.model.spec import (
    CLASSIFICATION,
    EMBEDDING,
    MULTI_LABEL,
    QUESTION_ANSWERING,
    REGRESSION,
    TEXTS,
    TOKEN_CLASSIFICATION,
)

SQNR_DB = 15.0
AGREEMENT = 0.97
COSINE = 0.99
FIT = 0.99
NAMED_TENSORS = 5
NAMED_CHANNELS = 4

_DECIDED = {
    CLASSIFICATION: "",
    MULTI_LABEL: "' labels",
    QUESTION_ANSWERING: "' answers",
    TOKEN_CLASSIFICATION: "' tokens",
}
"""What both models decide of their inputs, of the tasks that decide."""

ADVICE = (
    "inputs like those that the model will see (--data), more of them (--samples), --remedies all"
)


@dataclass(frozen=True)
class Verdict:
    """What is below its bound, a sentence each: the agreement first, then tensors, worst first.

    summary: what was measured beside its bounds, a sentence.
    """

    findings: tuple[str, ...]
    summary: str = ""

    @property
    def good(self) -> bool:
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        return {
            "good": self.good,
            "findings": list(self.findings),
            "summary": self.summary,
            "bounds": {
                "sqnr_db": SQNR_DB,
                "agreement": AGREEMENT,
                "cosine": COSINE,
                "fit": FIT,
            },
        }

    def __str__(self) -> str:
        """A line a finding and one with what to try; empty for a good model."""
        if self.good:
            return ""
        return "\n".join([*(f"warning: {line}" for line in self.findings), f"try: {ADVICE}"])


def judge(
    errors: Mapping[str, TensorError],
    likeness: float,
    texts: int,
    task: str = CLASSIFICATION,
    inputs: str = TEXTS,
) -> Verdict:
    """The verdict on a model by the errors of its tensors and its agreement with the float model.

    A poor model's tensors with outlier channels are named, too: they are a likely cause.

    likeness
        The share of the `texts` texts that both models give the same class; of several labels the
        share of the labels that both hold or both do not; of a class for every token the share of
        the tokens; of questions the share with the same answer; of embeddings the mean cosine of
        the two;
        of a regression R^2 of golden's numbers as those of float
        (quant.measure.metrics.determination).
    inputs
        What the `texts` are (EncoderSpec.inputs).
    """
    findings = []
    if task == EMBEDDING and likeness < COSINE:
        findings.append(
            f"golden's mean cosine with float is {likeness:.4f} on {texts} {inputs}: below {COSINE}"
        )
    elif task in _DECIDED and likeness < AGREEMENT:
        decided = inputs + _DECIDED[task]
        findings.append(
            f"golden and float agree on {likeness:.2%} of {texts} {decided}: below {AGREEMENT:.0%}"
        )
    elif task == REGRESSION and likeness < FIT:
        findings.append(
            f"golden's numbers explain {likeness:.4f} of the variance of float's on {texts} "
            f"{inputs}: below {FIT}"
        )
    poor = sorted((error.sqnr, name) for name, error in errors.items() if error.sqnr < SQNR_DB)
    for sqnr, name in poor[:NAMED_TENSORS]:
        findings.append(f"{name}: SQNR {sqnr:.1f} dB, below {SQNR_DB:.0f}: {cause(errors[name])}")
    if len(poor) > NAMED_TENSORS:
        findings.append(f"{len(poor) - NAMED_TENSORS} more tensors are below {SQNR_DB:.0f} dB")
    if findings:
        # Much signal in one channel gives a tensor a high SQNR, though the others have no codes.
        reach = [(e.outliers()[0][1], name) for name, e in errors.items() if e.outliers()]
        hidden = [name for _, name in sorted(reach, reverse=True) if errors[name].sqnr >= SQNR_DB]
        findings += [f"{name}: {cause(errors[name])}" for name in hidden[:NAMED_TENSORS]]
    return Verdict(tuple(findings), _summary(errors, likeness, f"{texts:,} {inputs}", task))


def _summary(errors: Mapping[str, TensorError], likeness: float, texts: str, task: str) -> str:
    if task == EMBEDDING:
        text = f"golden's mean cosine with float is {likeness:.4f} on {texts}"
    elif task == REGRESSION:
        text = f"golden's numbers explain {likeness:.4f} of the variance of float's"
    else:
        text = f"golden and float agree on {likeness:.2%} of {texts}{_DECIDED[task]}"
    if not errors:
        return text
    worst = min(errors, key=lambda name: errors[name].sqnr)
    full = max(errors, key=lambda name: errors[name].limits / max(errors[name].count, 1))
    share = errors[full].limits / max(errors[full].count, 1)
    return (
        f"{text}; the worst tensor, {worst}, has {errors[worst].sqnr:.1f} dB, where "
        f"{SQNR_DB:.0f} are enough; codes at their limits are at most {share:.2%} ({full}), and "
        "their error is in these figures"
    )


def cause(error: TensorError) -> str:
    """What of a tensor stands out: channels that reach far, else codes at their limits."""
    outliers = error.outliers()
    if outliers:
        shown = ", ".join(f"{c} ({ratio:.0f}x)" for c, ratio in outliers[:NAMED_CHANNELS])
        rest = len(outliers) - NAMED_CHANNELS
        more = f" and {rest} more" if rest > 0 else ""
        return f"channels that reach far beyond the median one: {shown}{more}"
    share = error.limits / max(error.count, 1)
    return f"no channel stands out, {share:.2%} of the codes at their limits"

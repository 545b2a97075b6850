"""Is a quantized model good? What falls below the bounds, in which channels, and what to try.

The reason of each bound is in docs/numerics.md, "When a calibration is poor".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quant.measure.compare import TensorError
from quant.measure.tasks import TABLE
from quant.model.spec import CLASSIFICATION, TEXTS

SQNR_DB = 15.0
AGREEMENT = 0.97
BOUNDS = {"agreement": AGREEMENT, "cosine": 0.99, "fit": 0.99}
"""By what `Task.likeness` measures."""
NAMED_TENSORS = 5
NAMED_CHANNELS = 4
ADVICE = (
    "inputs like those that the model will see (--data), more of them (--samples), --remedies all"
)
_SENTENCES = {
    "agreement": "golden and float agree on {0:.2%} of {1:,} {2}{3}",
    "cosine": "golden's mean cosine with float is {0:.4f} on {1:,} {2}",
    "fit": "golden's numbers explain {0:.4f} of the variance of float's on {1:,} {2}",
}


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
            "bounds": {"sqnr_db": SQNR_DB, **BOUNDS},
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
    """The verdict on a model by the errors of its tensors and its likeness to the float model.

    A poor model's tensors with outlier channels are named, too: they are a likely cause.

    likeness
        As `Task.likeness` measures it on so many texts; without pooling over their tokens.
    inputs
        What the `texts` are (EncoderSpec.inputs).
    """
    row = TABLE[task]
    alike = _SENTENCES[row.measure].format(likeness, texts, inputs, row.decided)
    findings, bound = [], BOUNDS[row.measure]
    if likeness < bound:
        shown = f"{bound:.0%}" if row.measure == "agreement" else str(bound)
        findings.append(f"{alike}: below {shown}")
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
    if not errors:
        return Verdict(tuple(findings), alike)
    worst = min(errors, key=lambda name: errors[name].sqnr)
    full = max(errors, key=lambda name: errors[name].share)
    summary = (
        f"{alike}; the worst tensor, {worst}, has {errors[worst].sqnr:.1f} dB, where "
        f"{SQNR_DB:.0f} are enough; codes at their limits are at most {errors[full].share:.2%} "
        f"({full}), and their error is in these figures"
    )
    return Verdict(tuple(findings), summary)


def cause(error: TensorError) -> str:
    """What of a tensor stands out: channels that reach far, else codes at their limits."""
    outliers = error.outliers()
    if outliers:
        shown = ", ".join(f"{c} ({ratio:.0f}x)" for c, ratio in outliers[:NAMED_CHANNELS])
        rest = len(outliers) - NAMED_CHANNELS
        more = f" and {rest} more" if rest > 0 else ""
        return f"channels that reach far beyond the median one: {shown}{more}"
    return f"no channel stands out, {error.share:.2%} of the codes at their limits"

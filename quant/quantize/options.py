"""The choices of a calibration."""

from dataclasses import dataclass

from cli.errors import UserError

from quant.model.spec import EncoderSpec
from quant.quantize.splitting import splittable

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

    bias_correction: bool = True
    remedies: tuple[str, ...] | None = None  # None: none, unless `calibrate` chooses
    precise: bool = False  # operands of 16 bits where there may be such

    def __post_init__(self) -> None:
        for name in self.remedies or ():
            if name not in REMEDIES:
                raise UserError(f"remedy {name!r}: it must be one of {', '.join(REMEDIES)}")

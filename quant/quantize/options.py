"""The choices of a calibration."""

from dataclasses import dataclass

from quant.quantize.observers import METHODS

REMEDIES = ("centre", "balance", "split", "shift", "wide", "round")
"""What calibration can do for networks whose channels differ much, see docs/numerics.md section 10.

centre, balance: quant.quantize.rewriting; split: quant.quantize.splitting; shift, wide:
quant.quantize.encoder; round: quant.quantize.rounding.
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Choices of a calibration; per_channel and multiplier_bits exist for the ablation table."""

    method: str = "min-max"
    bias_correction: bool = True
    per_channel: bool = True
    multiplier_bits: int = 16
    remedies: tuple[str, ...] | None = None  # None: none, unless `calibrate` chooses
    precise: bool = False  # operands of 16 bits where there may be such

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method is {self.method!r}: it must be one of {', '.join(METHODS)}")
        for name in self.remedies or ():
            if name not in REMEDIES:
                raise ValueError(f"remedy {name!r}: it must be one of {', '.join(REMEDIES)}")

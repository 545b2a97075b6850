"""The dividers of an ECP5's PLL."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

INPUT_MHZ = (10, 400)
VCO_MHZ = (400, 800)
MOST = 128
"""Of each divider."""
STEPS = 8
"""Of phase in a period of the VCO."""


@dataclass(frozen=True)
class Dividers:
    """CLKI_DIV, CLKFB_DIV and CLKOP_DIV: out = in * feedback / reference, VCO = out * output.

    The feedback comes from CLKOP; CLKOS has its divider, too.
    """

    reference: int
    feedback: int
    output: int

    @classmethod
    def of(cls, source_mhz: float, megahertz: float) -> Dividers:
        """The dividers that give `megahertz` exactly, the VCO as near to 600 MHz as it comes.

        Raises
        ------
        ValueError
            There are none.
        """
        ratio = Fraction(megahertz).limit_denominator(1000) / Fraction(source_mhz)
        reference, feedback = ratio.denominator, ratio.numerator
        comparison = source_mhz / reference
        middle = sum(VCO_MHZ) / 2
        output = min(max(round(middle / megahertz), 1), MOST)
        vco = megahertz * output
        if (
            reference > MOST
            or feedback > MOST
            or comparison < INPUT_MHZ[0] / 3.2
            or not VCO_MHZ[0] <= vco <= VCO_MHZ[1]
        ):
            raise ValueError(
                f"the clock is {megahertz:g} MHz: the PLL cannot make that of {source_mhz:g} MHz; "
                "take 50, 62.5, 75, 80 or 100"
            )
        return cls(reference, feedback, output)

    def shift(self, degrees: float) -> tuple[int, int]:
        """CPHASE and FPHASE of an output that comes that much later; to the nearest step."""
        steps = round(degrees / 360 * self.output * STEPS)
        return self.output - 1 + steps // STEPS, steps % STEPS

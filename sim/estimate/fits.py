"""The FPGAs that an accelerator fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from rtl.interface.config import Config
from sim.estimate.area import estimate, multipliers

FULL = 0.85
"""Share of the LUTs from which placing and routing get hard."""


@dataclass(frozen=True)
class Part:
    """An FPGA and how many LUTs, flip-flops, DSPs of 18 x 18 bits and RAMs of 18 kbit it has."""

    name: str
    family: str
    resources: dict[str, int]


HALF = ("Gowin GW2A", "Intel MAX 10")
"""Families whose DSP takes two products of the array; more LUTs and flip-flops than the ECP5's."""
_COUNTS = {
    # FPGA-DS-02012, table 1.1; LUTs and flip-flops as nextpnr-ecp5 counts what can be placed.
    "Lattice ECP5": {
        "LFE5U-25": (24_288, 24_288, 28, 56),
        "LFE5U-45": (43_848, 43_848, 72, 108),
        "LFE5U-85": (83_640, 83_640, 156, 208),
    },
    # AMD DS180; DS190 for Zynq-7000.
    "Xilinx 7 series": {
        "XC7A35T": (20_800, 41_600, 90, 100),
        "XC7A100T": (63_400, 126_800, 240, 270),
        "XC7A200T": (134_600, 269_200, 740, 730),
        "XC7K325T": (203_800, 407_600, 840, 890),
        "XC7Z010": (17_600, 35_200, 80, 120),
        "XC7Z020": (53_200, 106_400, 220, 280),
    },
    # AMD DS891; DS987 for the K26 (a ZU5EV).
    "Xilinx UltraScale+": {
        "XCK26": (117_120, 234_240, 1_248, 288),
        "XCZU7EV": (230_400, 460_800, 1_728, 624),
        "XCZU9EG": (274_080, 548_160, 2_520, 1_824),
    },
    # "Product Resources" of Gowin; M10-OVERVIEW of Intel, its M9K by twos.
    "Gowin GW2A": {"GW2A-18": (20_736, 15_552, 48, 46), "GW2AR-18": (20_736, 15_552, 48, 46)},
    "Intel MAX 10": {"10M50": (49_760, 49_760, 144, 91)},
}
PARTS = {
    name: Part(name, family, dict(zip(("LUT", "FF", "DSP", "block RAM"), counts)))
    for family, known in _COUNTS.items()
    for name, counts in known.items()
}
"""FPGAs by name."""


def shares(part: Part, config: Config) -> dict[str, float]:
    """How much of each resource of the part the accelerator takes.

    LUTs and flip-flops of the ECP5, which a Xilinx needs no more of by `sim.synth --target xilinx7`
    on 4 lanes; for those of HALF as many times more as Yosys counted on 4 lanes for the GW2A.
    """
    luts, flip_flops, dsps, blocks = estimate(config).values()
    if part.family in HALF:
        luts, flip_flops = ceil(luts * (15_085 / 13_333)), ceil(flip_flops * (17_040 / 16_065))
        dsps -= multipliers(config) // 2
    needed = luts, flip_flops, dsps, blocks
    return {name: n / have for n, (name, have) in zip(needed, part.resources.items(), strict=True)}


def _missing(found: Mapping[str, float], errors: Mapping[str, float]) -> list[str]:
    """Resources of `shares` that are too few if the estimate is as far off as its error."""
    margin = {"LUT": errors["LUT4"], "FF": errors["FF"]}
    return [name for name, share in found.items() if share * (1 + margin.get(name, 0)) > 1]


def verdict(part: Part, config: Config, errors: Mapping[str, float]) -> str:
    """`fits`; `fits, LUT tight`; or `no`, the missing resources and what would help.

    errors
        Of LUT4 and FF, as `area.largest_errors` has them: they are added to the estimate.
    """
    found = shares(part, config)
    missing = _missing(found, errors)
    if not missing:
        return "fits, LUT tight" if found["LUT"] * (1 + errors["LUT4"]) > FULL else "fits"
    answer = f"no: {', '.join(missing)}"
    if missing == ["DSP"]:
        fewer = part.resources["DSP"] - estimate(config)["DSP"] + multipliers(config)
        fewer *= 1 + (part.family in HALF)
        if fewer >= 0 and not _missing(shares(part, replace(config, dsp_macs=fewer)), errors):
            answer += f"; with --dsp-macs {fewer} it fits"
    return answer

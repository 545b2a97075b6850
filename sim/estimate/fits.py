"""Whether an accelerator fits a part."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from rtl.interface.config import Config
from sim.estimate.area import estimate, multipliers

PARTS = Path(__file__).with_name("parts.toml")
FULL = 0.85
"""Of the LUTs, from which on placing and routing get hard."""


@dataclass(frozen=True)
class Part:
    """An FPGA; `resources` are LUT, FF, DSP and block RAM."""

    name: str
    lut_inputs: int
    resources: dict[str, int]


@cache
def parts() -> tuple[Part, ...]:
    """The parts that are known."""
    found = tomllib.loads(PARTS.read_text())["part"]
    return tuple(Part(**entry) for entry in found)


def shares(part: Part, needed: Mapping[str, int]) -> dict[str, float]:
    """Needed of what the part has. A LUT4 of the estimate takes at most a LUT of any part."""
    names = {"LUT": "LUT4"}
    return {name: needed[names.get(name, name)] / have for name, have in part.resources.items()}


def missing(part: Part, needed: Mapping[str, int], errors: Mapping[str, float]) -> list[str]:
    """What the part has too little of, when the estimate is as far off as its error."""
    margin = {"LUT": errors["LUT4"], "FF": errors["FF"]}
    found = shares(part, needed).items()
    return [name for name, share in found if share * (1 + margin.get(name, 0)) > 1]


def verdict(part: Part, config: Config, errors: Mapping[str, float]) -> str:
    """`fits`; `fits, LUT tight`; or `no`, with what is missing and what would help.

    errors
        Of LUT4 and FF, as `area.largest_errors` has them: they are added to what is needed.
    """
    needed = estimate(config)
    lacks = missing(part, needed, errors)
    if not lacks:
        tight = shares(part, needed)["LUT"] * (1 + errors["LUT4"]) > FULL
        return "fits, LUT tight" if tight else "fits"
    answer = f"no: {', '.join(lacks)}"
    fewer = part.resources["DSP"] - (needed["DSP"] - multipliers(config))
    if lacks == ["DSP"] and fewer >= 0:
        smaller = replace(config, dsp_macs=fewer)
        if not missing(part, estimate(smaller), errors):
            answer += f"; with --dsp-macs {fewer} it fits"
    return answer

"""Whether an accelerator fits a part, and what a board's memory brings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from rtl.interface.config import Config
from sim.estimate.area import estimate, multipliers, points

PARTS = Path(__file__).with_name("parts.toml")
FULL = 0.85
"""Of the LUTs, from which on placing and routing get hard."""
COUNTED = Config(lanes=4)
"""The accelerator that was counted of every family."""
ECP5 = {"LUT": "LUT4"}
"""What the estimate calls a resource of a part, where it is called otherwise."""


@dataclass(frozen=True)
class Family:
    """Parts of one kind.

    Attributes
    ----------
    units
        What one of each resource is.
    products
        DSPs of a product in the array, and of one outside it.
    counted
        What COUNTED took; None of the family that the estimate is fitted to.
    like
        The family that was counted in its place; "" for none.
    """

    name: str
    units: str
    products: tuple[Fraction, Fraction]
    counted: Mapping[str, int] | None = None
    like: str = ""

    @property
    def more(self) -> dict[str, float]:
        """How many times the estimate of an ECP5 it takes, at least 1: by LUT, FF and block RAM."""
        if self.counted is None:
            return {}
        (known,) = (point.resources for point in points() if point.config == COUNTED)
        return {
            name: max(1.0, number / known[ECP5.get(name, name)])
            for name, number in self.counted.items()
        }


@dataclass(frozen=True)
class Part:
    """An FPGA; `resources` are LUT, FF, DSP and block RAM, as its family calls them."""

    name: str
    family: str
    resources: dict[str, int]


@dataclass(frozen=True)
class Memory:
    """The largest memory of a board.

    Attributes
    ----------
    bits, transfers
        Data pins, and millions of transfers a second that each takes.
    """

    kind: str
    mebibytes: int
    bits: int
    transfers: int

    def megabytes_a_second(self, clock_mhz: float) -> float:
        """At the pins: what no controller exceeds; 10^6 bytes.

        SDRAM of a single data rate has the accelerator's clock, as long as it takes it.
        """
        rate = min(self.transfers, clock_mhz) if self.kind == "SDRAM" else self.transfers
        return self.bits * rate / 8


@dataclass(frozen=True)
class Board:
    """A board with a part of `parts`; its memory is None where it has none or it is not known."""

    name: str
    part: str
    memory: Memory | None = field(default=None)


@cache
def _tables() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(PARTS.read_text())


@cache
def families() -> dict[str, Family]:
    """The families that are known, by name."""
    entries = {entry["name"]: entry for entry in _tables()["family"]}
    found = {}
    for name, entry in entries.items():
        source = entries[entry.get("like", name)]
        array, other = map(Fraction, source["products"])
        found[name] = Family(
            name=name,
            units=entry["units"],
            products=(array, other),
            counted=source.get("counted"),
            like=entry.get("like", ""),
        )
    return found


@cache
def parts() -> tuple[Part, ...]:
    """The parts that are known."""
    return tuple(Part(**entry) for entry in _tables()["part"])


@cache
def boards() -> tuple[Board, ...]:
    """The boards that are known."""
    found = []
    for entry in _tables()["board"]:
        memory = Memory(**entry["memory"]) if "memory" in entry else None
        found.append(Board(entry["name"], entry["part"], memory))
    return tuple(found)


def outside(config: Config) -> int:
    """Products outside the array: requantize, softmax and LayerNorm."""
    return estimate(config)["DSP"] - multipliers(config)


def needed(family: Family, config: Config) -> dict[str, int]:
    """LUT, FF, DSP and block RAM as the family calls them, about.

    DSPs are counted. The others are the estimate of an ECP5, which another family exceeds as far as
    it did at COUNTED.
    """
    told, more, array = estimate(config), family.more, multipliers(config)
    dsps = family.products[0] * array + family.products[1] * (told["DSP"] - array)
    return {
        name: ceil(dsps) if name == "DSP" else ceil(told[ECP5.get(name, name)] * more.get(name, 1))
        for name in ("LUT", "FF", "DSP", "block RAM")
    }


def shares(part: Part, config: Config) -> dict[str, float]:
    """Needed of what the part has; infinite where it has none."""
    wanted = needed(families()[part.family], config)
    return {
        name: wanted[name] / have if have else float("inf") for name, have in part.resources.items()
    }


def missing(found: Mapping[str, float], errors: Mapping[str, float]) -> list[str]:
    """What there is too little of by `shares`, when the estimate is as far off as its error."""
    margin = {"LUT": errors["LUT4"], "FF": errors["FF"]}
    return [name for name, share in found.items() if share * (1 + margin.get(name, 0)) > 1]


def verdict(part: Part, config: Config, errors: Mapping[str, float]) -> str:
    """`fits`; `fits, LUT tight`; or `no`, with what is missing and what would help.

    errors
        Of LUT4 and FF, as `area.largest_errors` has them: they are added to what is needed.
    """
    found = shares(part, config)
    lacks = missing(found, errors)
    if not lacks:
        return "fits, LUT tight" if found["LUT"] * (1 + errors["LUT4"]) > FULL else "fits"
    answer = f"no: {', '.join(lacks)}"
    if lacks == ["DSP"]:
        each, other = families()[part.family].products
        fewer = int((part.resources["DSP"] - other * outside(config)) // each)
        if fewer >= 0 and not missing(shares(part, replace(config, dsp_macs=fewer)), errors):
            answer += f"; with --dsp-macs {fewer} it fits"
    return answer

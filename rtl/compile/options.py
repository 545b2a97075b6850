"""Hardware for models that are named: `--fit`."""

from __future__ import annotations

import argparse
from pathlib import Path

from golden.store import load
from rtl.compile.fit import fixed_tokens, sized
from rtl.interface.config import Config
from rtl.interface.options import LIMITS, given, options_of


def add_fit(parser: argparse.ArgumentParser) -> None:
    """Add `--fit`."""
    parser.add_argument(
        "--fit",
        nargs="+",
        type=Path,
        metavar="DIR",
        help="what quant.calibrate wrote, one or several: what these models need is the default of "
        f"{', '.join(f'--{name}' for name in LIMITS)}, --bias-heads and --rotary-pairs",
    )


def fit(options: argparse.Namespace) -> Config:
    """The accelerator for the models of `--fit`, printed; ValueError as `sized`."""
    loaded = [load(directory) for directory in options.fit]
    fixed = max(fixed_tokens(*one) for one in loaded)
    config = sized([model for model, _ in loaded], given(options), fixed)
    print(f"sized for {', '.join(map(str, options.fit))}: {' '.join(options_of(config))}")
    return config

"""Which model a command of sim/ runs: `--model`, a checkpoint, or `--quantized`, made from one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.errors import UserError
from cli.options import add_model, positive, whole

from golden.model import Model
from golden.store import load
from quant import which
from quant.calibrate import ensure
from quant.foreign.checkpoint import DEFAULT_MODEL
from quant.foreign.checkpoint import load as load_checkpoint
from quant.quantize.encoder import stand_in
from quant.quantize.options import applicable
from rtl.compile.fit import fixed_tokens
from rtl.interface.config import LANES


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add `--model` and `--quantized`."""
    add_model(parser, default=None)
    what = "folder that quant.calibrate wrote (default: build/ and the name of --model)"
    parser.add_argument("--quantized", type=Path, metavar="DIR", help=what)


def listed(one: Callable[[str], int]) -> Callable[[str], list[int]]:
    """The type of an option that takes different values with commas between them."""

    def convert(text: str) -> list[int]:
        found = [one(part) for part in text.split(",")]
        if len(set(found)) != len(found):
            raise argparse.ArgumentTypeError(f"{text!r}: give each value once")
        return found

    return convert


def lane_number(text: str) -> int:
    """The type of a number of lanes."""
    value = int(whole(1)(text))
    if value not in LANES:
        allowed = ", ".join(map(str, LANES))
        raise argparse.ArgumentTypeError(f"invalid choice: {value} (choose from {allowed})")
    return value


def add_memory_options(
    parser: argparse.ArgumentParser, stream_bytes: Any = positive, *, ahead: bool = False
) -> None:
    """Add what the memories around the accelerator give, and what it is asked to compute.

    stream_bytes: the type of `--stream-bytes`, None for no such option; ahead: how much of the
    stream is read before it is asked for can be chosen.
    """
    what = "bytes of the command stream a cycle (default: the columns of the array)"
    if stream_bytes is not None:
        parser.add_argument("--stream-bytes", type=stream_bytes, metavar="N", help=what)
    what = "cycles from a request to an embedding row (default: %(default)s)"
    parser.add_argument("--row-latency", type=positive, default=20, metavar="N", help=what)
    what = (
        "the last layer computes all tokens, also where the head reads the first alone: same "
        "logits, later"
    )
    parser.add_argument("--whole-last-layer", action="store_true", help=what)
    what = (
        "words of the command stream that a buffer in front of the accelerator holds (default: 1)"
    )
    if ahead:
        parser.add_argument("--stream-ahead", type=positive, default=1, metavar="WORDS", help=what)


def quantized_of(options: argparse.Namespace) -> Path:
    """The directory of the quantized model that the options name.

    Without options it is that of the shipped checkpoint, calibrated first where it is missing.
    UserError where there is none of another checkpoint, which needs texts of its own.
    """
    folder, there, checkpoint = which.model_of(options)
    if there or checkpoint is None:
        return folder
    if checkpoint.resolve() == DEFAULT_MODEL.resolve():
        return ensure()
    raise UserError(
        f"--model {options.model} has no quantized model in {folder}: calibrate first, "
        f"`{which.CALIBRATE} --model {options.model} --data TEXTS`"
    )


def shape_of(options: argparse.Namespace) -> tuple[Model, Path, int]:
    """A model of the shape that the options name, its directory, and the one length of its inputs.

    Nothing is calibrated: where there is no quantized model it is as calibration makes the
    checkpoint without remedies, which is said on stderr. The length is 0 where inputs differ in it,
    as `fixed_tokens` has it.
    """
    folder, there, checkpoint = which.model_of(options)
    if there or checkpoint is None:
        model, info = load(folder)
        return model, folder, fixed_tokens(model, info)
    loaded = load_checkpoint(checkpoint)
    split = "split adds up to 16 neurons a layer, " if "split" in applicable(loaded.spec) else ""
    print(
        f"note: {checkpoint} is not calibrated yet: this is its shape without remedies, of which "
        f"{split}shift and wide add some cycles",
        file=sys.stderr,
        flush=True,
    )
    model = stand_in(loaded)
    return model, checkpoint, fixed_tokens(model, {"spec": loaded.spec.to_json()})

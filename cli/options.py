"""Options that several commands have: one name, one meaning and one default each."""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from cli import files, journey
from cli.command import Exit
from cli.machine import ROOT
from cli.paths import WRITTEN, unreadable, unwritable

_SHIPPED = Path("models/bert-tiny-imdb")
MODEL = _SHIPPED if Path.cwd() == ROOT else ROOT / _SHIPPED
"""The shipped checkpoint, whatever the current folder is."""
LANES = 8
PATHS = ("FILE", "DIR", "DIR|FILE", "NAME|FILE")  # metavars of the options that name a path


class Parser(argparse.ArgumentParser):
    """Options of the command `python -m module`; `examples` stand below them, a line each."""

    def __init__(self, module: str, description: str, examples: str) -> None:
        super().__init__(
            prog=journey.spoken(f"python -m {module}"),
            description=journey.spoken(description),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=journey.spoken(examples),
        )
        shown = f"bert2rtl {version()}"
        self.add_argument("--version", action="version", version=shown, help="show it and stop")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, and refuse paths that cannot be what the options ask for."""
        options, rest = super().parse_known_args(args, namespace)
        for action in self._actions:
            given: Any = getattr(options, action.dest, None)
            asked = given != action.default or action.dest in WRITTEN
            for value in given if isinstance(given, list) else [given]:
                if value and asked and action.metavar in PATHS:
                    self._check(action, str(value))
        return options, rest

    def _check(self, action: argparse.Action, value: str) -> None:
        if action.dest == "json" and value == files.STANDARD_OUTPUT:
            files.figures, sys.stdout = sys.stdout, sys.stderr
            return
        check = unwritable if action.dest in WRITTEN else unreadable
        if why := check(Path(value), str(action.metavar)):
            self.error(f"argument {'/'.join(action.option_strings) or action.metavar}: {why}")

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.REFUSED, f"error: {message}; --help shows what is allowed\n")


@cache
def version() -> str:
    """The version of the installed package."""
    try:
        return metadata.version("bert2rtl")
    except metadata.PackageNotFoundError:
        return "0 (not installed)"


def whole(minimum: int, maximum: int | None = None) -> Any:
    """The type of an option that is a whole number of at least `minimum` and at most `maximum`."""
    allowed = f"{minimum} or more" if maximum is None else f"{minimum} to {maximum}"

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < minimum or (maximum is not None and value > maximum):
            raise argparse.ArgumentTypeError(f"{value} is out of range: it must be {allowed}")
        return value

    return convert


positive = whole(1)
Group = argparse._ActionsContainer


def _adder(option: str, text: str, initial: Any = None, **settings: Any) -> Callable[..., None]:
    """The function that adds an option to a group, with `initial` or another default."""

    def add(group: Group, default: Any = initial) -> None:
        shown = default or initial
        told = f"{text} (default: {shown})" if shown else text
        group.add_argument(option, default=default, help=told, **settings)

    return add


_CHECKPOINT = "checkpoint in Hugging Face layout, or hub:owner/name"
_CALIBRATION = (
    "folder of quant.calibrate (default: build/ and the name of --model, made if missing)"
)
_FIGURES = "also write the figures here; -: to standard output, and all else to stderr"
_SCHEDULER = "run on the workers of the dask.distributed scheduler tcp://HOST:PORT instead of here"
_COLUMNS = "columns of the array: 1, 2, 4 or 8 times the lanes (default: as many)"
add_model = _adder("--model", _CHECKPOINT, MODEL, type=Path, metavar="DIR")
add_quantized = _adder("--quantized", _CALIBRATION, type=Path, metavar="DIR")
add_tokens = _adder(
    "--tokens", "longest text in tokens; the rest is cut", type=positive, metavar="N"
)
add_columns = _adder("--columns", _COLUMNS, type=positive, metavar="M")
add_json = _adder("--json", _FIGURES, type=Path, metavar="FILE")
add_dask = _adder("--dask", _SCHEDULER, metavar="ADDRESS")


def add_lanes(group: Group, choices: Sequence[int], default: int = LANES) -> None:
    """--lanes: N of the N x M array."""
    text = f"N, rows of the array: {', '.join(map(str, choices))}"
    _adder("--lanes", text, default, type=int, choices=choices, metavar="N")(group)


def add_seed(group: Group, what: str, default: int | None = 0) -> None:
    """--seed: of `what` is drawn at random; without a default another one each time."""
    text = f"of {what} (default: {'another one each time' if default is None else default})"
    seed = random.randrange(100_000) if default is None else default
    group.add_argument("--seed", type=whole(0, (1 << 32) - 1), default=seed, metavar="N", help=text)


def add_jobs(group: Group, what: str) -> None:
    """--jobs: how many of `what` run at a time."""
    text = f"{what} at a time (default: one a core)"
    group.add_argument("--jobs", type=positive, default=os.cpu_count(), metavar="N", help=text)

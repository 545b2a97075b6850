"""Options that several commands have: one name, one meaning and one default each."""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from cli import journey
from cli.command import Exit
from cli.files import STANDARD_OUTPUT, json_alone
from cli.machine import ROOT
from cli.paths import WRITTEN, problem

_SHIPPED = Path("models/bert-tiny-imdb")
MODEL = _SHIPPED if Path.cwd() == ROOT else ROOT / _SHIPPED
"""The shipped checkpoint, whatever the current folder is."""
LANES = 8
SEED = 0
PATHS = ("FILE", "DIR", "DIR|FILE", "NAME|FILE")
"""Metavars of the options that name a path."""


class Parser(argparse.ArgumentParser):
    """Options of the command `python -m module`.

    description, examples
        What --help shows above and below the options; a line an example.

    Every command takes --version. A wrong option is one line on stderr and Exit.REFUSED.
    """

    def __init__(self, module: str, description: str, examples: str) -> None:
        super().__init__(
            prog=journey.spoken(f"python -m {module}"),
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=examples,
        )
        self.add_argument(
            "--version", action="version", version=f"bert2rtl {version()}", help="show it and stop"
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, and refuse paths that cannot be what the options ask for."""
        options, rest = super().parse_known_args(args, namespace)
        if str(getattr(options, "json", None)) == STANDARD_OUTPUT:
            json_alone()
        for action in self._actions:
            given: Any = getattr(options, action.dest, None)
            if action.metavar not in PATHS or given is None:
                continue
            if given == action.default and action.dest not in WRITTEN:
                continue
            for value in given if isinstance(given, list) else [given]:
                if why := problem(action.dest, str(action.metavar), value):
                    name = "/".join(action.option_strings) or str(action.metavar)
                    self.error(f"argument {name}: {why}")
        return options, rest

    def format_help(self) -> str:
        """With the commands in it called as this one was."""
        return journey.spoken(super().format_help())

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


def add_model(group: argparse._ActionsContainer, default: Path | None = MODEL) -> None:
    """--model: a float checkpoint, in a directory or hub:owner/name."""
    group.add_argument(
        "--model",
        type=Path,
        default=default,
        metavar="DIR",
        help=f"checkpoint in Hugging Face layout, or hub:owner/name (default: {default or MODEL})",
    )


def add_quantized(group: argparse._ActionsContainer) -> None:
    """--quantized: a directory that quant.calibrate wrote; None unless it is given."""
    group.add_argument(
        "--quantized",
        type=Path,
        metavar="DIR",
        help="folder of quant.calibrate (default: build/ and the name of --model, calibrated "
        "first where it is missing)",
    )


def add_tokens(group: argparse._ActionsContainer, default: int) -> None:
    """--tokens: how long a text may be; what is longer is cut."""
    group.add_argument(
        "--tokens",
        type=positive,
        default=default,
        metavar="N",
        help=f"longest text in tokens; the rest is cut (default: {default})",
    )


def add_lanes(
    group: argparse._ActionsContainer, choices: Sequence[int], default: int = LANES
) -> None:
    """--lanes: N of the N x M array."""
    allowed = ", ".join(map(str, choices))
    group.add_argument(
        "--lanes",
        type=int,
        default=default,
        choices=choices,
        metavar="N",
        help=f"N, rows of the array: {allowed} (default: {default})",
    )


def add_columns(group: argparse._ActionsContainer) -> None:
    """--columns: M of the N x M array."""
    group.add_argument(
        "--columns",
        type=positive,
        metavar="M",
        help="columns of the array, which has N x M multipliers: 1, 2, 4 or 8 times the lanes "
        "(default: as many)",
    )


def add_json(group: argparse._ActionsContainer, default: Path | None = None) -> None:
    """--json: where the figures go that the command prints, `default` unless it is given.

    A key says its unit; the dataclass that is written documents its fields.
    """
    group.add_argument(
        "--json",
        type=Path,
        default=default,
        metavar="FILE",
        help="also write the figures here; -: to standard output, and all else to stderr"
        + (f" (default: {default})" if default else ""),
    )


def add_seed(group: argparse._ActionsContainer, what: str, default: int | None = SEED) -> None:
    """--seed: of `what` is drawn at random; the same seed gives the same result.

    Without a default the seed is another one each time, and the command prints it.
    """
    group.add_argument(
        "--seed",
        type=whole(0, (1 << 32) - 1),
        default=random.randrange(100_000) if default is None else default,
        metavar="N",
        help=f"of {what} (default: {'another one each time' if default is None else default})",
    )


def add_jobs(group: argparse._ActionsContainer, what: str) -> None:
    """--jobs: how many of `what` run at a time."""
    group.add_argument(
        "--jobs",
        type=positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help=f"{what} at a time (default: one a core)",
    )


def add_dask(group: argparse._ActionsContainer) -> None:
    """--dask: the scheduler whose workers run the cases; None unless it is given."""
    group.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="run on the workers of the dask.distributed scheduler tcp://HOST:PORT instead of here",
    )

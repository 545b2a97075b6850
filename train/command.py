"""Shared by the training commands: options, where they write, and how they start."""

import argparse
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from cli.command import run_command
from cli.errors import UserError
from cli.machine import BUILD
from cli.options import Parser, add_json, add_seed, positive
from cli.paths import check_written

OPTIONS = "options.json"
"""The options of a run, in its folder until it ends."""

_PLACES = ("out", "force", "resume", "json")


def add_sizes(group: argparse._ActionsContainer, **sizes: int) -> None:
    """The sizes of a new model, by their defaults."""
    for name, value in sizes.items():
        option = f"--{name.replace('_', '-')}"
        group.add_argument(option, type=positive, default=value, metavar="N", help="(%(default)s)")


def add_common(parser: Parser, recipe: argparse._ArgumentGroup, name: str) -> None:
    """Options of both training commands; ``name`` says what the default of --out is called after.

    --batch and --learning-rate have no default here.
    """
    recipe.add_argument("--batch", type=positive, metavar="N", help="examples in a step")
    recipe.add_argument("--learning-rate", type=float, metavar="RATE", help="at its peak")
    recipe.add_argument("--weight-decay", type=float, default=0.01, help="(%(default)s)")
    add_seed(recipe, "everything drawn at random")
    place = parser.add_argument_group("files")
    place.add_argument("--out", type=Path, metavar="DIR", help=f"(build/trained/ and {name})")
    place.add_argument("--resume", action="store_true", help="go on with the run in --out")
    place.add_argument("--force", action="store_true", help="replace what --out holds")
    add_json(place)


def share(text: str) -> float:
    """An argument from 0 to below 1."""
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not from 0 to below 1")
    return value


def decisive(options: argparse.Namespace) -> dict[str, Any]:
    """The options that decide the result, which --resume has to repeat, as JSON has them."""
    given = {name: value for name, value in vars(options).items() if name not in _PLACES}
    found: dict[str, Any] = json.loads(json.dumps(given, default=str))
    return found


def check_place(options: argparse.Namespace, name: str) -> None:
    """Settle --out, by default called ``name``, and refuse what would lose or mix something."""
    out = options.out = options.out or BUILD / "trained" / name
    check_written(out, "DIR")
    started, held = out / OPTIONS, out.is_dir() and any(out.iterdir())
    if options.resume:
        if not started.is_file():
            raise UserError(f"--resume: {out} holds no interrupted run: start it without --resume")
        before = json.loads(started.read_text(encoding="utf-8"))
        for key, value in decisive(options).items():
            if before.get(key) != value:
                raise UserError(
                    f"--resume: {out} was started with {key} {before.get(key)} instead of "
                    f"{value}: give the same options"
                )
    elif held and not (started.is_file() or (out / "config.json").is_file()):
        raise UserError(f"{out} exists and is no checkpoint: name another --out")
    elif held and not options.force:
        kind = "an interrupted run: --resume goes on, or" if started.is_file() else "a checkpoint:"
        raise UserError(f"{out} holds {kind} name another --out, or --force to replace it")
    else:
        for old in out.glob("checkpoint-*"):
            shutil.rmtree(old)


def run_training(parser: Parser, work: str, argv: Sequence[str] | None) -> int:
    """Do a command's work, "module.function" where the module imports torch; the exit code."""

    def body() -> None:
        options = parser.parse_args(argv)
        from transformers.utils import logging

        logging.disable_progress_bar()  # those of loading and saving
        logging.set_verbosity_error()
        resolve_name(work)(options)

    return run_command(body)

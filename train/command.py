"""Shared by the training commands: options, device, where they write and the figures as JSON."""

import argparse
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.journey import then
from cli.machine import BUILD
from cli.options import Parser, add_json, add_seed, positive, whole
from cli.paths import check_written
from cli.progress import duration

from train.failure import TrainError

# These say where to write, not what.
_NOT_RECORDED = ("out", "force", "work", "restart", "stop_after", "json", "command")
_TRAINED = BUILD / "trained"
_UNFINISHED = BUILD / "train"


_MEASURED = "percent right (numbers: R^2), and mean loss"


def add_common(
    parser: Parser,
    recipe: argparse._ArgumentGroup,
    *,
    name: str,
    rate: float,
    batch: int,
    average: float | None,
    patience: int | None,
) -> None:
    """Options of every training command; the defaults that differ are arguments.

    ``name`` says in the help what the default of --out is called after.
    """
    recipe.add_argument(
        "--batch", type=positive, default=batch, help="texts or images a step (%(default)s)"
    )
    recipe.add_argument("--learning-rate", type=float, default=rate, help="peak (%(default)s)")
    recipe.add_argument(
        "--warmup",
        type=share,
        default=0.1,
        help="share of the steps with a rising rate (%(default)s)",
    )
    recipe.add_argument("--weight-decay", type=float, default=0.01, help="(%(default)s)")
    recipe.add_argument("--clip", type=float, default=1.0, help="gradient norm (%(default)s)")
    recipe.add_argument(
        "--average",
        type=share,
        default=average,
        metavar="DECAY",
        help="decay a step of the moving average of the weights, 0 for none"
        + shown_default(average),
    )
    recipe.add_argument(
        "--patience",
        type=whole(0),
        default=patience,
        metavar="N",
        help="stop after N evaluations without gain, 0 for never" + shown_default(patience),
    )
    add_seed(recipe, "everything drawn at random")
    machine = parser.add_argument_group("machine and files")
    machine.add_argument("--device", default="cpu", help="cpu, cuda, cuda:N (%(default)s)")
    machine.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        help="of the forward pass (bfloat16 where the device computes with it, else float32)",
    )
    machine.add_argument(
        "--out", type=Path, metavar="DIR", help=f"the checkpoint ({_TRAINED}/ and {name})"
    )
    machine.add_argument(
        "--force", action="store_true", help="replace the checkpoint that --out holds"
    )
    machine.add_argument(
        "--work",
        type=Path,
        metavar="DIR",
        help=f"state of an unfinished run ({_UNFINISHED}/ and the name of --out)",
    )
    machine.add_argument("--restart", action="store_true", help="drop the unfinished run")
    add_json(machine)


def shown_default(value: object) -> str:
    """The end of an option's help; nothing where the default depends on the data."""
    return "" if value is None else f" ({value})"


def share(text: str) -> float:
    """An argument from 0 to below 1."""
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not from 0 to below 1")
    return value


def places(options: argparse.Namespace, name: str) -> Path:
    """Settle --out, by default called ``name``; the folder of the unfinished run.

    Raises TrainError where writing to --out would lose something.
    """
    options.out = options.out or _TRAINED / name
    if options.out.exists() and not options.out.is_dir():
        raise TrainError(f"{options.out} is a file: name a folder with --out")
    if options.out.is_dir() and any(options.out.iterdir()):
        if not (options.out / "config.json").exists():
            raise TrainError(f"{options.out} exists and is no checkpoint: name another --out")
        if not options.force:
            raise TrainError(
                f"{options.out} holds a checkpoint: name another --out, or pass --force to "
                "replace it"
            )
    work: Path = options.work or _UNFINISHED / options.out.name
    for place in (options.out, work):
        check_written(place, "DIR")
    if options.restart:
        shutil.rmtree(work, ignore_errors=True)
    return work


def run_training(
    command: Callable[[argparse.Namespace], None],
    parser: Parser,
    argv: Sequence[str] | None,
) -> int:
    """Run a command; its exit code (cli.command.Exit), with one line on stderr for an error."""

    def body() -> None:
        options = parser.parse_args(argv)
        from transformers.utils.logging import disable_progress_bar

        options.command = list(sys.argv[1:] if argv is None else argv)
        if not sys.stderr.isatty():
            disable_progress_bar()  # that of transformers, which does not look
        command(options)

    return run_command(body)


def recorded(options: argparse.Namespace) -> dict[str, Any]:
    """The options that decide the result, as JSON values."""
    return {
        name.replace("_", "-"): str(value) if isinstance(value, Path) else value
        for name, value in vars(options).items()
        if name not in _NOT_RECORDED
    }


def finish(options: argparse.Namespace, report: Mapping[str, Any]) -> None:
    """Write the figures of a run to --json, where given."""
    if options.json is not None:
        files.write_json(options.json, report)


def ended(options: argparse.Namespace, seconds: float, following: str) -> None:
    """Say what was written, and the command that comes next."""
    print(f"{options.out}: written after {duration(seconds)} of training")
    then(following, "--model", options.out)

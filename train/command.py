"""What the training commands share: options, device, exit codes and the figures as JSON."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cli.files import replacing

import torch
from transformers.utils.logging import disable_progress_bar

from quant.data_file import TextError
from train.failure import TrainError
from train.loop import Interrupted, Plan

_NOT_RECORDED = ("out", "work", "restart", "stop_after", "json", "command")  # say where, not what
_INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def add_common(
    parser: argparse.ArgumentParser,
    recipe: argparse._ArgumentGroup,
    *,
    out: str,
    rate: float,
    batch: int,
    average: float,
) -> None:
    """Options of every training command; the defaults that differ are arguments."""
    recipe.add_argument("--batch", type=positive, default=batch, help="texts a step (%(default)s)")
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
        help="decay a step of the moving average of the weights, 0 for none (%(default)s)",
    )
    recipe.add_argument(
        "--patience", type=int, default=0, help="stop after so many evaluations without gain"
    )
    recipe.add_argument("--seed", type=int, default=0, help="(%(default)s)")
    machine = parser.add_argument_group("machine and files")
    machine.add_argument("--device", default="cpu", help="cpu, cuda, cuda:N (%(default)s)")
    machine.add_argument("--precision", choices=("float32", "bfloat16"), default="bfloat16")
    machine.add_argument("--out", type=Path, default=Path(out), metavar="DIR", help="(%(default)s)")
    machine.add_argument(
        "--work", type=Path, metavar="DIR", help="state of an unfinished run (build/train/NAME)"
    )
    machine.add_argument("--restart", action="store_true", help="drop the unfinished run")
    machine.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")


def positive(text: str) -> int:
    """An argument that counts: 1 or more."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not 1 or more")
    return value


def share(text: str) -> float:
    """An argument from 0 to below 1."""
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not from 0 to below 1")
    return value


def device_of(name: str) -> str:
    """A torch device that is there, prepared for results that repeat bit for bit."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise TrainError(f"--device {name!r} is no device: use cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise TrainError(f"--device {name!r} is not supported: use cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise TrainError(f"--device {name}: torch finds {torch.cuda.device_count()} CUDA devices")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    return str(device)


def plan_of(
    options: argparse.Namespace,
    device: str,
    *,
    steps: int,
    evaluate_at: tuple[int, ...],
    stop_after: int = 0,
) -> Plan:
    """How a run is optimised: what its length decides, and the options of `add_common`."""
    return Plan(
        steps=steps,
        warmup=round(options.warmup * steps),
        rate=options.learning_rate,
        decay=options.weight_decay,
        clip=options.clip,
        average=options.average,
        evaluate_at=evaluate_at,
        patience=options.patience,
        stop_after=stop_after,
        seed=options.seed,
        device=device,
        bfloat16=options.precision == "bfloat16",
    )


def run(
    command: Callable[[argparse.Namespace], None],
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
) -> int:
    """Run a command; its exit code, with one line on stderr for an error or an interruption."""
    options = parser.parse_args(argv)
    options.command = list(sys.argv[1:] if argv is None else argv)
    if not sys.stderr.isatty():
        disable_progress_bar()  # that of transformers, which does not look
    try:
        command(options)
    except (TrainError, TextError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (Interrupted, KeyboardInterrupt) as stop:
        print(str(stop) or "interrupted", file=sys.stderr)
        return _INTERRUPTED
    return 0


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
        with replacing(options.json) as temporary:
            temporary.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")

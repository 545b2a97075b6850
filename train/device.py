"""Where a run trains and how it is optimised, by the options of `train.command.add_common`."""

import argparse
import os
from typing import Any

import torch

from train.command import recorded
from train.failure import TrainError
from train.loop import Outcome, Plan


def device_of(options: argparse.Namespace) -> str:
    """The device of --device, prepared for results that repeat bit for bit; settles --precision."""
    name = options.device
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
    if options.precision is None:
        options.precision = "bfloat16" if _computes_bfloat16(device) else "float32"
    return str(device)


def _computes_bfloat16(device: torch.device) -> bool:
    """Whether the device has instructions for it; without them it is slower than float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    found = torch.cpu.get_capabilities()
    return any(found.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16"))


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


def how_made(options: argparse.Namespace, module: str, outcome: Outcome) -> dict[str, Any]:
    """What the card of a run says of its making, as arguments of the functions of train.card."""
    return {
        "name": options.out.name,
        "module": module,
        "arguments": recorded(options),
        "command": options.command,
        "history": outcome.history,
        "best_step": outcome.best_step,
    }

"""The state of an unfinished run, on disk: what a killed run needs to go on as if nothing happened.

One safetensors file (nothing is unpickled): the tensors of every part of the state under
``part/name``, and in its metadata the counters, the history and the arguments of the run. It is
written under a temporary name and renamed, so a kill at any moment leaves the last whole one.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.files import replacing

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from train.failure import TrainError

Tensors = dict[str, torch.Tensor]

_FORMAT = 2


def save_snapshot(
    path: Path, parts: Mapping[str, Tensors], counters: Mapping[str, Any], arguments: Mapping
) -> None:
    """Write a snapshot atomically; the tensors of a part must not share memory."""
    tensors = {
        f"{part}/{name}": tensor.detach().contiguous()
        for part, named in parts.items()
        for name, tensor in named.items()
    }
    state = {"format": _FORMAT, "counters": counters, "arguments": arguments}
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={"state": json.dumps(state)})


def load_snapshot(path: Path, arguments: Mapping) -> tuple[dict[str, Tensors], dict[str, Any]]:
    """The parts and counters of a snapshot.

    Raises TrainError when it is damaged or of a run with other arguments: going on with those would
    give the result of neither run.
    """
    try:
        with safe_open(path, framework="pt") as file:
            state = json.loads(file.metadata()["state"])
            names = file.keys()
            flat = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise TrainError(f"{path} is no snapshot of a run ({error}): pass --restart") from None
    if state.get("format") != _FORMAT:
        raise TrainError(f"{path} was written by another version: pass --restart to begin again")
    other = state["arguments"]
    changed = [key for key in {**other, **arguments} if other.get(key) != arguments.get(key)]
    if changed:
        shown = ", ".join(
            f"{key} {other.get(key)!r} instead of {arguments.get(key)!r}" for key in sorted(changed)
        )
        raise TrainError(
            f"{path} belongs to an unfinished run with {shown}: give the same arguments to go on "
            "with it, --restart to drop it, or another --work folder to keep both"
        )
    parts: dict[str, Tensors] = {}
    for name, tensor in flat.items():
        part, _, key = name.partition("/")
        parts.setdefault(part, {})[key] = tensor
    return parts, state["counters"]

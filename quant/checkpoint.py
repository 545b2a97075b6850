"""Reading a checkpoint directory in Hugging Face layout: config.json and *.safetensors.

Weights come from safetensors only: a pickle (pytorch_model.bin) can run code when it is loaded, so
it is refused. Half precision and bfloat16 are widened to float32, which is exact.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.options import MODEL

import numpy as np
from safetensors import SafetensorError, deserialize

from quant import sentence
from quant.families import FAMILIES, REFUSED, Tensors
from quant.spec import EMBEDDING, Arrays, CheckpointError, EncoderSpec, Floats, check_arrays

DEFAULT_MODEL = MODEL

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


@dataclass(frozen=True)
class Checkpoint:
    """An encoder as loaded: its spec, its float32 arrays, where they came from and their hash."""

    spec: EncoderSpec
    arrays: Arrays
    directory: Path
    sha256: str


def load(directory: str | Path) -> Checkpoint:
    """Read the checkpoint in ``directory``.

    The hash covers config.json and the weight files in the order of their names; of an encoder that
    makes embeddings also the files that say how (quant.sentence). Raises CheckpointError naming the
    file or layer, what is wrong with it and what is expected.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise CheckpointError(
            f"no checkpoint directory {directory}: it must exist and hold config.json and "
            "model.safetensors"
        )
    config_file = directory / "config.json"
    digest = hashlib.sha256()
    config = _config(config_file)
    digest.update(config_file.read_bytes())
    tensors: dict[str, Floats] = {}
    for file in _weight_files(directory):
        data = _bytes(file)
        digest.update(data)
        for name, tensor in _tensors(file, data):
            if name in tensors:
                raise CheckpointError(f"{file}: {name} is also in another weight file")
            tensors[name] = tensor
    family = config.get("model_type")
    if family in REFUSED:
        raise CheckpointError(f"{config_file}: model_type {family!r} cannot run: {REFUSED[family]}")
    if family not in FAMILIES:
        raise CheckpointError(
            f"{config_file}: model_type is {family!r}: supported are {', '.join(sorted(FAMILIES))}"
        )
    source = Tensors(tensors)
    try:
        spec, arrays = FAMILIES[family](config, source)
        check_arrays(spec, arrays)
        source.refuse_rest()
        if spec.task == EMBEDDING:
            layout = sentence.read(directory)
            digest.update(layout.content)
            spec, arrays = layout.applied(spec, arrays)
    except CheckpointError as error:
        raise CheckpointError(f"{directory}: {error}") from None
    except ValueError as error:
        raise CheckpointError(f"{config_file}: {error}") from None
    return Checkpoint(spec, arrays, directory, digest.hexdigest())


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise CheckpointError(f"cannot read {file}: {error.strerror}") from None


def _config(file: Path) -> Mapping[str, Any]:
    if not file.is_file():
        raise CheckpointError(f"{file.parent} has no config.json: is it a Hugging Face checkpoint?")
    try:
        config = json.loads(_bytes(file).decode())
    except ValueError as error:
        raise CheckpointError(f"{file} is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise CheckpointError(f"{file} must hold a JSON object")
    return config


def _weight_files(directory: Path) -> list[Path]:
    files = sorted(directory.glob("*.safetensors"))
    if files:
        return files
    pickles = sorted(directory.glob("*.bin")) + sorted(directory.glob("*.pt"))
    if pickles:
        raise CheckpointError(
            f"{directory} has weights only as a pickle ({pickles[0].name}), which can run code "
            "when loaded and is never read: save the model with safe_serialization=True"
        )
    raise CheckpointError(f"{directory} has no *.safetensors file with the weights")


def _tensors(file: Path, data: bytes) -> Iterator[tuple[str, Floats]]:
    try:
        entries = deserialize(data)
    except SafetensorError as error:
        raise CheckpointError(
            f"{file} is not a valid safetensors file ({error}): copy it again"
        ) from None
    for name, entry in entries:
        dtype, raw = entry["dtype"], bytes(entry["data"])
        if dtype in _DTYPES:
            tensor = np.frombuffer(raw, _DTYPES[dtype]).astype(np.float32)
        elif dtype == "BF16":
            tensor = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        elif dtype == "I64":  # position_ids, a buffer of old checkpoints
            tensor = np.frombuffer(raw, "<i8").astype(np.float32)
        else:
            raise CheckpointError(
                f"{file}: {name} has type {dtype}: weights must be F32, F16, BF16 or F64"
            )
        yield name, tensor.reshape(entry["shape"])

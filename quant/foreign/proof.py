"""The proof that a checkpoint was read right: transformers' own model beside this project's.

A row of quant.foreign.layouts says what is followed; what it leaves out, an option that nobody
foresaw too, shows here as a number. It needs torch, which nothing else of quant imports.
"""

import contextlib
import multiprocessing
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant.foreign.checkpoint import Checkpoint, Twin, load, weight_files
from quant.foreign.config import Options
from quant.model import float_model
from quant.model.float_model import Doubles
from quant.model.spec import CheckpointError, EncoderSpec

TOLERANCE = 1e-5
"""Of the largest difference beside the largest output. Equal models differ by 1e-7 or less."""

LENGTHS = (1, 7, 22)
_LENGTH = "original_max_position_embeddings"
_UNSEEN = re.compile(
    "dropout|initializer|_token_id$|^(sentence_transformers|auto_map|torch_dtype)$|^sbert_ce_"
)
"""Options that change no output: of training, of the tokenizer, of what is read elsewhere."""


def proved(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with the relative difference of both models, in float64, on random tokens or
    pixels.

    None where nothing can be compared: a layout of the project's own, or no torch. Raises
    CheckpointError with the difference above TOLERANCE, and without torch for an option of
    config.json that no loader reads.
    """
    twin, spec = checkpoint.twin, checkpoint.spec
    if twin is None:
        return checkpoint
    if find_spec("torch") is None:
        if unread := _unread(twin.options):
            raise CheckpointError(
                f"{twin.options.file}: {', '.join(unread)}: no loader reads that: install torch, "
                "and it is tried whether the outputs depend on it"
            )
        return checkpoint
    import torch

    theirs, furthest, largest = _model(twin), [0.0], [0.0]
    draw, front = np.random.default_rng(1), checkpoint.front
    lengths = {min(length, spec.max_tokens) for length in (*LENGTHS, _beyond(twin, spec))}
    for length in {spec.max_tokens} if front else lengths:
        if front:
            pixels = draw.normal(size=(front.channels, front.height, front.width))
            batch, types = {"pixel_values": torch.tensor(pixels[None])}, None
            rows = front.rows(pixels)
        else:
            ids, types = _tokens(spec, length, draw)
            batch = _batch(theirs, spec, ids, types)
            rows = checkpoint.arrays["embedding.token"][ids]
        with torch.no_grad():
            wanted = _outputs(theirs, spec, batch)
        arrays = Doubles(checkpoint.arrays | {"embedding.token": rows})
        found = float_model.run(spec, arrays, np.arange(length, dtype=np.int32), types)
        furthest.append(float(np.abs(found - wanted).max()))
        largest.append(float(np.abs(wanted).max()))
    worst = float(
        np.max(furthest) / (np.max(largest) or 1.0)
    )  # not a number if one of them is none
    if not worst <= TOLERANCE:
        raise CheckpointError(
            f"{checkpoint.directory}: the outputs differ from those of transformers' own "
            f"{twin.name} by {worst:.2g} of the largest, more than {TOLERANCE:g}: it computes "
            "something that no loader here follows"
        )
    return replace(checkpoint, difference=worst)


@contextlib.contextmanager
def proving(checkpoint: Checkpoint) -> Iterator[Callable[[], float | None]]:
    """The difference of `proved`, by a process beside the block, which asks for it at last.

    So torch and a second model take none of its memory. What needs no torch is tried at once, as
    is all where torch is imported already.
    """
    if checkpoint.twin is None or find_spec("torch") is None or "torch" in sys.modules:
        difference = proved(checkpoint).difference
        yield lambda: difference
        return
    spawn, ignored = multiprocessing.get_context("spawn"), (signal.SIGINT, signal.SIG_IGN)
    with ProcessPoolExecutor(1, spawn, signal.signal, ignored) as pool:
        yield pool.submit(_difference, checkpoint.directory, checkpoint.asked).result


def _difference(directory: Path, task: str | None) -> float | None:
    return proved(load(directory, task)).difference


def said(checkpoint: Checkpoint) -> str:
    """The result of `proved` as a command shows it."""
    if checkpoint.twin is None:
        return "not compared with transformers, which has no class for it"
    if checkpoint.difference is None:
        return "not compared with transformers: install torch"
    return f"equal to transformers' own model: {checkpoint.difference:.0e}"


def _unread(options: Options) -> list[str]:
    """The options that no loader asked for, where their values are not those of the class."""
    from transformers import PretrainedConfig

    usual = options.made().to_dict()
    harmless = {*PretrainedConfig().to_dict(), *options.seen}
    return [
        f"{name} is {value!r}"
        for name, value in options.given.items()
        if not (name in harmless or name.startswith("_") or _UNSEEN.search(name))
        and value not in (None, False, "", [], {})
        and (name not in usual or usual[name] != value)
    ]


def _beyond(twin: Twin, spec: EncoderSpec) -> int:
    """A length beyond each window and each original length that the options name."""
    sides = [side for w in spec.windows if w for side in (w.before, w.after) if side is not None]
    names = (_LENGTH, "relative_attention_max_distance")
    named = [value for name, value in _numbers(twin.options) if name in names]
    return int(max([0, *sides, *named, 128 if spec.position_bias else 0])) + 2


def _numbers(options: Mapping[str, Any]) -> list[tuple[str, float]]:
    """All numbers by their names, nested ones too."""
    found = []
    for name, value in options.items():
        if isinstance(value, dict):
            found += _numbers(value)
        elif isinstance(value, int | float):
            found.append((str(name), value))
    return found


def _tokens(
    spec: EncoderSpec, length: int, draw: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Random ids and types, special ones too, but for those that `encode` refuses in a text."""
    refused = {spec.unread, spec.position_offset - 1 if spec.position_offset else None}
    last = None
    if spec.pooling == "last":
        last = spec.vocabulary - 1 if spec.end is None else spec.end
        refused |= {last}
    allowed = np.array([i for i in range(spec.vocabulary) if i not in refused], np.int32)
    ids = draw.choice(allowed, length)
    if last is not None:
        ids[-1] = last
    return ids, draw.integers(0, max(spec.types, 1), length).astype(np.int32)


def _model(twin: Twin) -> Any:
    """transformers' own model in float64, of links with the names that it looks for."""
    import torch
    import transformers

    files = weight_files(twin.folder)
    options = twin.options
    with tempfile.TemporaryDirectory() as made, contextlib.ExitStack() as stack:
        for file in files:
            name = file.name if len(files) > 1 else "model.safetensors"
            (Path(made) / name).symlink_to(file.resolve())
        for index in twin.folder.glob("*.index.json") if len(files) > 1 else ():
            (Path(made) / index.name).symlink_to(index.resolve())
        transformers.utils.logging.disable_progress_bar()
        stack.callback(transformers.utils.logging.enable_progress_bar)
        try:
            kind = getattr(transformers, twin.name)
            if kind.config_class.model_type == options.family:
                config = options.made(**_without(options.given))
            else:  # a side of a whole model
                config = transformers.AutoConfig.from_pretrained(twin.folder.resolve())
            model = kind.from_pretrained(
                made,
                config=config,
                dtype=torch.float64,
                attn_implementation="eager",
                use_safetensors=True,
            )
        except Exception as error:  # whatever the library has against the folder
            said = " ".join(str(error).split())[:300]
            raise CheckpointError(
                f"{twin.folder}: transformers cannot load its own {twin.name} ({said})"
            ) from None
    return model.eval()


def _without(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in ("model_type", "auto_map")}


def _batch(
    model: Any, spec: EncoderSpec, ids: NDArray[np.int32], types: NDArray[np.int32]
) -> dict[str, Any]:
    import torch

    batch = {"input_ids": torch.tensor(ids[None].astype(np.int64))}
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    if spec.types > 1:
        batch["token_type_ids"] = torch.tensor(types[None].astype(np.int64))
    if type(model).__name__.endswith("MultipleChoice"):
        batch = {name: tensor[:, None] for name, tensor in batch.items()}
    return batch


def _outputs(model: Any, spec: EncoderSpec, batch: dict[str, Any]) -> NDArray[np.float64]:
    """The outputs of transformers' model, laid out as ours."""
    whole = hasattr(model, "get_text_features")
    found = model.get_text_features(**batch) if whole else model(**batch)
    if whole:
        features = getattr(found, "pooler_output", found)
        return np.asarray(features[0])
    normed = ["pooler_output"] if spec.given and spec.embedding_norm else []  # of CLIP's images
    for name in ("logits", "text_embeds", "image_embeds", *normed):
        if found.get(name) is not None:
            return np.asarray(found[name][0])
    if "start_logits" in found:
        return np.stack([found.start_logits[0], found.end_logits[0]], axis=1)
    states = np.asarray(found.last_hidden_state[0])
    one = {"first": 0, "last": -1}.get(spec.pooling)
    return states.mean(axis=0) if one is None else states[one]

"""The proof that a checkpoint was read right: transformers' own model beside this project's.

A row of quant.foreign.layouts says what is followed; what it leaves out, an option that nobody
foresaw too, shows here as a number. It needs torch, which nothing else of quant imports.
"""

import contextlib
import json
import multiprocessing
import re
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from quant.foreign.checkpoint import Checkpoint, load, weight_files
from quant.foreign.config import Options
from quant.model import float_model
from quant.model.float_model import Doubles
from quant.model.spec import CheckpointError, EncoderSpec, saying

TOLERANCE = 1e-5
"""Of the largest difference beside the largest output. Equal models differ by 1e-7 or less."""

_LENGTHS = re.compile(r'"(?:original_max_position_embeddings|\w+_max_distance)": (\d+)')
"""Options, as JSON, whose lengths those that are tried go beyond, as they do beyond windows."""
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
    twin, spec, front = checkpoint.twin, checkpoint.spec, checkpoint.front
    if twin is None:
        return checkpoint
    if find_spec("torch") is None:
        if unread := _unread(twin):
            advice = "install torch, and it is tried whether the outputs depend on it"
            what = f"{', '.join(unread)}: no loader reads that"
            raise CheckpointError(f"{twin.file}: {what}: {advice}")
        return checkpoint
    theirs, draw, types = _model(twin), np.random.default_rng(1), None
    differences, outputs = [], []
    sides = [side for w in spec.windows if w for side in (w.before, w.after) if side is not None]
    named = map(int, _LENGTHS.findall(json.dumps(twin.given)))
    beyond = max([*sides, *named, 128 if spec.position_bias else 0]) + 2
    lengths = {min(length, spec.max_tokens) for length in (1, 7, 22, beyond)}
    for length in {spec.max_tokens} if front else lengths:
        if front:
            pixels = draw.normal(size=(front.channels, front.height, front.width))
            batch: dict[str, Any] = {"pixel_values": pixels}
            rows = front.rows(pixels)
        else:
            ids, types = _tokens(spec, length, draw)
            batch = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
            batch |= {"token_type_ids": types} if spec.types > 1 else {}
            rows = checkpoint.arrays["embedding.token"][ids]
        wanted = _outputs(theirs, spec, batch)
        arrays = Doubles(checkpoint.arrays | {"embedding.token": rows})
        found = float_model.run(spec, arrays, np.arange(length, dtype=np.int32), types)
        differences.append(np.abs(found - wanted).max())
        outputs.append(np.abs(wanted).max())
    worst = float(np.max(differences) / (np.max(outputs) or 1.0))  # not a number if one is none
    if not worst <= TOLERANCE:
        raise CheckpointError(
            f"{checkpoint.directory}: the outputs differ from those of transformers' own "
            f"{twin.twin} by {worst:.2g} of the largest, more than {TOLERANCE:g}: it computes "
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


@contextlib.contextmanager
def without_torch() -> Iterator[None]:
    """transformers finds no torch in the block, which it would import for its own decorators."""
    with contextlib.ExitStack() as after:
        if not {"torch", "transformers"} & sys.modules.keys():
            cast(dict[str, Any], sys.modules)["torch"] = None
            after.callback(sys.modules.pop, "torch")
        yield


def _difference(directory: Path, task: str | None) -> float | None:
    return proved(load(directory, task)).difference


def said(difference: float | None, checkpoint: Checkpoint | None = None) -> str:
    """The result of `proved` as a command shows it, of a checkpoint with what it lacks."""
    if difference is not None:
        return f"equal to transformers' own model: {difference:.0e}"
    why = ": install torch" if checkpoint and checkpoint.twin is not None else ""
    why = ", which has no class for it" if checkpoint and checkpoint.twin is None else why
    return f"not compared with transformers{why}"


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


def _tokens(
    spec: EncoderSpec, length: int, draw: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Random ids and types, special ones too, but for those that `encode` refuses in a text."""
    last = spec.vocabulary - 1 if spec.end is None else spec.end
    refused = {spec.unread, spec.position_offset - 1, last if spec.pooling == "last" else None}
    allowed = np.array([i for i in range(spec.vocabulary) if i not in refused], np.int32)
    ids = draw.choice(allowed, length)
    if spec.pooling == "last":
        ids[-1] = last
    return ids, draw.integers(0, max(spec.types, 1), length).astype(np.int32)


def _model(options: Options) -> Any:
    """transformers' own model in float64."""
    import torch
    import transformers
    from safetensors.torch import load_file

    given = {n: x for n, x in options.given.items() if n not in ("model_type", "auto_map")}
    folder = options.file.parent
    transformers.utils.logging.disable_progress_bar()
    what = f"{folder}: transformers cannot load its own {options.twin}"
    with saying(CheckpointError, what, "nothing can be compared"):
        kind = getattr(transformers, options.twin)
        if kind.config_class.model_type == options.family:
            config = options.made(**given)
        else:  # a side of a whole model
            config = transformers.AutoConfig.from_pretrained(folder.resolve())
        model = kind.from_pretrained(
            None,
            config=config,
            state_dict={n: x for f in weight_files(folder) for n, x in load_file(f).items()},
            dtype=torch.float64,
            attn_implementation="eager",
        )
    return model.eval()


def _outputs(model: Any, spec: EncoderSpec, inputs: dict[str, Any]) -> NDArray[np.float64]:
    """The outputs of transformers' model, laid out as ours."""
    import torch

    axes = (0, 1) if type(model).__name__.endswith("MultipleChoice") else 0
    batch = {
        name: torch.tensor(np.expand_dims(x if x.dtype == float else x.astype(int), axes))
        for name, x in inputs.items()
    }
    whole = hasattr(model, "get_text_features")
    with torch.no_grad():
        found = model.get_text_features(**batch) if whole else model(**batch)
    if whole:
        return np.asarray(getattr(found, "pooler_output", found)[0])
    normed = ["pooler_output"] if spec.given and spec.embedding_norm else []  # of CLIP's images
    for name in ("logits", "text_embeds", "image_embeds", *normed):
        if found.get(name) is not None:
            return np.asarray(found[name][0])
    if "start_logits" in found:
        return np.stack([found.start_logits[0], found.end_logits[0]], axis=1)
    states = np.asarray(found.last_hidden_state[0])
    one = {"first": 0, "last": -1}.get(spec.pooling)
    return states.mean(axis=0) if one is None else states[one]

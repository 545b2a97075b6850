"""Reading a checkpoint directory in Hugging Face layout: its config, weights and tokenizer.

Weights come from safetensors only: a pickle (pytorch_model.bin) can run code when it is loaded, so
it is refused. Half precision and bfloat16 are widened to float32, which is exact. A checkpoint of
images has a front end (quant.foreign.vision) where one of texts has a tokenizer; one of rows has
neither.
"""

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from cli.options import MODEL

import numpy as np
from safetensors import deserialize

from golden.model import TOKENS_MAX
from quant.foreign import config as options
from quant.foreign import layouts, resolve, sentence, vision
from quant.foreign.config import Options
from quant.foreign.resolve import Resolved
from quant.foreign.sentence import Layout
from quant.foreign.tensors import Tensors
from quant.foreign.tokenizer import TextTokenizer
from quant.images.files import saying
from quant.images.front import PROCESSORS, Front
from quant.model import position_bias
from quant.model.spec import (
    QUESTION_ANSWERING,
    TEXT_SIDE,
    Arrays,
    CheckpointError,
    EncoderSpec,
    Floats,
)

DEFAULT_MODEL = MODEL

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
"""The one file of the weights, or the list of several, as `transformers` looks for them."""

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
_BUFFERS = ("position_ids", "token_type_ids")
"""Tensors of old checkpoints that hold no weights."""
_POINTER = b"version https://git-lfs"


@dataclass(frozen=True)
class Twin:
    """The class of `transformers` that computes the same: its name, folder and options."""

    name: str
    folder: Path
    options: Options


@dataclass(frozen=True)
class Checkpoint:
    """An encoder as loaded: its spec, its float32 arrays, where they came from and their hash.

    resolved: its tokenizer; front: in its place, the front end of a model of images. One of rows
    has neither. asked: the task that was asked for, None for its own. notes: what was taken
    otherwise than a reader might expect, a sentence each. twin: for `quant.foreign.proof`, which
    finds the difference to it.
    """

    spec: EncoderSpec
    arrays: Arrays
    directory: Path
    sha256: str
    resolved: Resolved | None
    asked: str | None = None
    notes: tuple[str, ...] = ()
    front: Front | None = None
    twin: Twin | None = None
    difference: float | None = None


def fingerprint(directory: str | Path) -> str:
    """SHA-256 of all files that decide an answer: of config, weights, tokenizer or image processor.

    Raises CheckpointError as load, for a folder without them.
    """
    return _fingerprint(_layout(Path(directory)))


def load(
    directory: str | Path, task: str | None = None, resolved: Resolved | None = None
) -> Checkpoint:
    """Read the checkpoint in ``directory``.

    task: one of TASKS, where the checkpoint's own head is not wanted or does not say what it is;
    TEXT_SIDE for that of a whole model of images and texts, of which else the image side is taken.
    resolved: its tokenizer, where it was resolved before. Raises CheckpointError naming the file or
    layer, what is wrong with it and what is expected.
    """
    directory = Path(directory)
    layout = _layout(directory)
    config_file = layout.encoder / options.CONFIG
    side = options.TEXT_SIDE if task == TEXT_SIDE else options.IMAGE_SIDE
    raw = options.read(config_file, side)
    name = raw["model_type"]
    family = layouts.FAMILIES.get(name) or vision.FAMILIES.get(name)
    config = Options(config_file, raw, family.renamed if family else None)
    source = Tensors(_weights(layout.encoder))
    try:
        if family is None:
            longest = max(source.names, key=len, default="the weights")
            why = f"no row of quant/foreign/layouts.py says where {longest} stands"
            can = ", ".join([*layouts.FAMILIES, *vision.FAMILIES])
            raise CheckpointError(
                f"model_type {name!r} cannot run: {source.difference() or why}; {can} can, and "
                "docs/extending.md shows how to add a family"
            )
        if resolved is None and name in layouts.FAMILIES:
            config.complete()
        asked = None if task == TEXT_SIDE else task
        spec, arrays, notes, kind, front = layouts.load(family, config, source, layout, asked)
        source.refuse_rest()
    except ValueError as error:
        named = isinstance(error, CheckpointError)
        place = "" if str(directory) in str(error) else directory if named else config_file
        raise CheckpointError(f"{place}: {error}" if place else str(error)) from None
    twin, notes = Twin(kind, layout.encoder, config) if kind else None, [*layout.notes, *notes]
    found = _fingerprint(layout)
    loaded = Checkpoint(spec, arrays, directory, found, None, task, tuple(notes), front, twin)
    if front is not None or spec.rows:
        return loaded
    return _of_texts(loaded, resolved or resolve.resolve(layout))


def _of_texts(loaded: Checkpoint, resolved: Resolved) -> Checkpoint:
    """With its tokenizer, to whose longest text its positions are cut.

    Raises CheckpointError where the two do not fit.
    """
    spec, arrays, cut = _cut(loaded.spec, loaded.arrays, resolved)
    tokenizer, last = TextTokenizer(resolved), resolved.special.get("eos")
    least = tokenizer.least(pair=spec.task == QUESTION_ANSWERING)
    for right, why in (
        (
            tokenizer.rows <= spec.vocabulary,
            f"the tokenizer has ids up to {tokenizer.rows - 1}, and the embedding "
            f"{spec.vocabulary} rows: one of the two is of another model",
        ),
        (
            spec.end in (None, last),
            f"the head reads the token {spec.end} (eos_token_id of config.json), and the tokenizer "
            f"ends a text with {last}: one of the two is of another model",
        ),
        (
            spec.max_tokens >= least,
            f"the longest text has {spec.max_tokens} tokens, by its tokenizer, its max_seq_length "
            f"or its positions: with special tokens it must have {least} or more",
        ),
    ):
        if not right:
            raise CheckpointError(f"{loaded.directory}: {why}")
    notes = (*loaded.notes, *cut)
    return replace(loaded, spec=spec, arrays=arrays, resolved=resolved, notes=notes)


def say(checkpoint: Checkpoint) -> None:
    """The notes of a checkpoint, on stderr."""
    for note in checkpoint.notes:
        print(f"note: {checkpoint.directory}: {note}", file=sys.stderr, flush=True)


def _layout(directory: Path) -> Layout:
    if not directory.is_dir():
        raise CheckpointError(
            f"no checkpoint directory {directory}: it must exist and hold config.json and "
            "model.safetensors"
        )
    return sentence.read(directory)


def _fingerprint(layout: Layout) -> str:
    """Names and contents, so that no file can take the place of another."""
    config, *others = (layout.encoder / name for name in (options.CONFIG, *PROCESSORS))
    files = [f for f in (config, *resolve.files(layout.encoder), *others) if f.is_file()]
    files += weight_files(layout.encoder)
    stats = [(file, file.stat()) for file in files]
    return _digest(layout.content, tuple((f, s.st_size, s.st_mtime_ns, s.st_ino) for f, s in stats))


@lru_cache(maxsize=8)
def _digest(settings: bytes, files: tuple[tuple[Path, int, int, int], ...]) -> str:
    """SHA-256 of files, kept as long as size, time and inode of each say that none has changed."""
    digest = hashlib.sha256(settings)
    for file, size, *_ in files:
        digest.update(f"{file.name} {size} ".encode())
        with file.open("rb") as data:
            hashlib.file_digest(data, lambda: digest)
    return digest.hexdigest()


def _cut(
    spec: EncoderSpec, arrays: Arrays, resolved: Resolved
) -> tuple[EncoderSpec, Arrays, list[str]]:
    """The position table down to the longest text of the tokenizer, or of an accelerator."""
    tokens, notes = min(resolved.tokens or spec.max_tokens, spec.max_tokens), []
    most = TOKENS_MAX - spec.position_offset  # the rows before the first token count
    if tokens > most:
        notes = [
            f"texts are cut at {most:,} tokens, the most that an accelerator takes, where the "
            f"checkpoint has {tokens:,}"
        ]
        tokens = most
    if tokens == spec.max_tokens:
        return spec, arrays, notes
    rows = spec.position_offset + tokens
    kept = {"embedding.position": arrays["embedding.position"][:rows]}
    if spec.position_bias:
        kept[position_bias.BIAS] = position_bias.cut(arrays[position_bias.BIAS], tokens)
    kept |= {name: x[:tokens] for name, x in arrays.items() if name.startswith("rotary.")}
    return replace(spec, positions=rows), arrays | kept, notes


def weight_files(directory: Path) -> list[Path]:
    """model.safetensors, else what its index lists, else the one file that there is."""
    adapter, index = directory / "adapter_config.json", directory / INDEX
    files = sorted(file for file in directory.glob("*.safetensors") if file.name[0] != ".")
    whole = [file for file in files if file.name == WEIGHTS]
    if adapter.is_file() or (files and files[0].name.startswith("adapter")) or not files:
        there = options.instead(directory)
        raise CheckpointError(
            f"{directory} has no *.safetensors file with the weights{there and f': {there}'}"
        )
    if whole or (len(files) == 1 and not index.is_file()):
        return whole or files
    shards: Any = options.json_object(index).get("weight_map") if index.is_file() else None
    listed = sorted({str(name) for name in shards.values()}) if isinstance(shards, dict) else []
    names = [file.name for file in files]
    if not listed or not set(listed) <= set(names):
        raise CheckpointError(
            f"{index} must say which of {', '.join(names)} are meant, and does of {listed}: copy it"
        )
    return [directory / name for name in listed]


def _weights(directory: Path) -> dict[str, Floats]:
    tensors: dict[str, Floats] = {}
    for file in weight_files(directory):
        for name, tensor in _tensors(file):
            if name in tensors:
                raise CheckpointError(f"{file}: {name} is also in another weight file")
            tensors[name] = tensor
    return tensors


def _tensors(file: Path) -> Iterator[tuple[str, Floats]]:
    """Each is freed as it was read when the next one is asked for: a table may be most of it."""
    data = options.content(file)
    if data.startswith(_POINTER):
        raise CheckpointError(
            f"{file} is a pointer of Git LFS, not the weights: run `git lfs pull` in its folder"
        )
    with saying(CheckpointError, f"{file} is not a valid safetensors file", "copy it again"):
        entries = deserialize(data)
    del data
    while entries:
        name, entry = entries.pop(0)
        if name.split(".")[-1] in _BUFFERS:
            continue
        dtype, raw = entry["dtype"], entry["data"]
        if dtype in _DTYPES:
            tensor = np.frombuffer(raw, _DTYPES[dtype]).astype(np.float32)
        elif dtype == "BF16":
            tensor = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            raise CheckpointError(
                f"{file}: {name} has type {dtype}: weights must be F32, F16, BF16 or F64, as the "
                "checkpoint has them before any quantization"
            )
        yield name, tensor.reshape(entry["shape"])

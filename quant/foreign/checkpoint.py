"""Reading a checkpoint directory in Hugging Face layout: its config, weights and tokenizer.

Weights come from safetensors only: a pickle (pytorch_model.bin) can run code when it is loaded, so
it is refused. Half precision and bfloat16 are widened to float32, which is exact. A checkpoint of
images has a front end (quant.foreign.vision) where one of texts has a tokenizer; one of rows has
neither.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from cli.options import MODEL

import numpy as np
from safetensors import SafetensorError, deserialize

from golden.model import TOKENS_MAX
from quant.foreign import config as options
from quant.foreign import layouts, resolve, sentence, vision
from quant.foreign.config import Options
from quant.foreign.resolve import Resolved
from quant.foreign.sentence import Layout
from quant.foreign.tensors import Tensors
from quant.foreign.tokenizer import TextTokenizer
from quant.foreign.transformer import OWN, transformer
from quant.images.front import PROCESSORS, Front
from quant.model import position_bias
from quant.model.spec import (
    FILES,
    IMAGES,
    QUESTION_ANSWERING,
    TEXT_SIDE,
    TEXTS,
    Arrays,
    CheckpointError,
    EncoderSpec,
    Floats,
    check_arrays,
)

DEFAULT_MODEL = MODEL

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
"""The one file of the weights, or the list of several, as `transformers` looks for them."""

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
_WRAPPERS = {"module.": "module", "_orig_mod.": "_orig_mod", "base_model.model.": "base_model"}
"""What DataParallel, torch.compile and peft put before the names of a model's tensors."""
_BUFFERS = ("position_ids", "token_type_ids")
"""Tensors of old checkpoints that hold no weights."""
_POINTER = b"version https://git-lfs"
_PIECE = 1 << 20  # bytes of a file that are hashed at a time


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


def inputs_of(directory: Path) -> str:
    """What a checkpoint reads, as EncoderSpec.inputs, by its config alone; errors as load."""
    config = options.read(_layout(directory).encoder / options.CONFIG)
    if config.get("rows") is True:
        return FILES
    return IMAGES if config["model_type"] in vision.FAMILIES else TEXTS


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
    family = layouts.FAMILIES.get(name)
    config = options.Options(config_file, raw, family.renamed if family else None)
    source = Tensors(_weights(layout.encoder))
    front, twin = None, ""
    try:
        if name in vision.FAMILIES:
            spec, arrays, notes, front, twin = vision.load(config, source, layout, task)
        elif name == OWN:
            asked = task or layout.task
            spec, arrays = transformer(raw, source, asked)
            if asked not in (None, spec.task):
                raise CheckpointError(f"{name} of the task {spec.task} cannot be asked for {asked}")
            notes = []
        elif family:
            if resolved is None:
                config.complete()
            own = None if task == TEXT_SIDE else task
            spec, arrays, notes, twin = layouts.load(family, config, source, layout, own)
        else:
            raise CheckpointError(_no_family(name, source))
        check_arrays(spec, arrays)
        source.refuse_rest()
    except CheckpointError as error:
        said = str(error)
        raise CheckpointError(said if str(directory) in said else f"{directory}: {said}") from None
    except ValueError as error:
        raise CheckpointError(f"{config_file}: {error}") from None
    made = Twin(twin, layout.encoder, config) if twin else None
    if front is not None or spec.rows:
        found, noted = _fingerprint(layout), (*layout.notes, *notes)
        return Checkpoint(spec, arrays, directory, found, None, task, noted, front, made)
    if resolved is None:
        resolved = resolve.resolve(layout.encoder, layout.tokens, layout.lower)
    spec, arrays, cut = _cut(spec, arrays, resolved)
    tokenizer = TextTokenizer(resolved)
    if tokenizer.rows > spec.vocabulary:
        raise CheckpointError(
            f"{directory}: the tokenizer has ids up to {tokenizer.rows - 1}, and the embedding "
            f"{spec.vocabulary} rows: one of the two is of another model"
        )
    last = resolved.special.get("eos")
    if spec.end is not None and last != spec.end:
        raise CheckpointError(
            f"{directory}: the head reads the token {spec.end} (eos_token_id of config.json), and "
            f"the tokenizer ends a text with {last}: one of the two is of another model"
        )
    least = tokenizer.least(pair=spec.task == QUESTION_ANSWERING)
    if spec.max_tokens < least:
        raise CheckpointError(
            f"{directory}: the longest text has {spec.max_tokens} tokens, by its tokenizer, its "
            f"max_seq_length or its positions: with special tokens it must have {least} or more"
        )
    return Checkpoint(
        spec=spec,
        arrays=arrays,
        directory=directory,
        sha256=_fingerprint(layout),
        resolved=resolved,
        asked=task,
        notes=(*layout.notes, *notes, *cut),
        twin=made,
    )


def _no_family(name: str, source: Tensors) -> str:
    """Why a model_type without a row cannot run, by what its tensors or its class show."""
    from transformers.models.auto import modeling_auto as known
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    words = name in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if name not in CONFIG_MAPPING_NAMES:
        why = "transformers has no class for it, and remote code is never run"
    elif shown := source.difference():
        why = shown
    elif name in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not words:
        why = "transformers has it as a decoder, which predicts the next word"
    else:
        why = f"no row of quant/foreign/layouts.py says where {max(source.names, key=len)} stands"
    return (
        f"model_type {name!r} cannot run: {why}; {', '.join(layouts.FAMILIES)} and "
        f"{', '.join(vision.FAMILIES)} can, and docs/extending.md shows how to add a family"
    )


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
def _digest(content: bytes, files: tuple[tuple[Path, int, int, int], ...]) -> str:
    """SHA-256 of files, kept as long as size, time and inode of each say that none has changed."""
    digest = hashlib.sha256(content)
    for file, size, *_ in files:
        digest.update(f"{file.name} {size} ".encode())
        try:
            with file.open("rb") as data:
                while piece := data.read(_PIECE):
                    digest.update(piece)
        except OSError as error:
            raise _unreadable(file, error) from None
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


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: OSError) -> CheckpointError:
    return CheckpointError(f"cannot read {file}: {error.strerror}")


def weight_files(directory: Path) -> list[Path]:
    """model.safetensors, else what its index lists, else the one file that there is."""
    if (directory / "adapter_config.json").is_file():
        raise CheckpointError(f"{directory}: {options.instead(directory)}")
    if (directory / WEIGHTS).is_file():
        return [directory / WEIGHTS]
    if (directory / INDEX).is_file():
        return _shards(directory / INDEX)
    files = sorted(file for file in directory.glob("*.safetensors") if file.name[0] != ".")
    if len(files) == 1 and not files[0].name.startswith("adapter"):
        return files
    if files and not files[0].name.startswith("adapter"):
        raise CheckpointError(
            f"{directory} has several weight files ({', '.join(file.name for file in files)}) and "
            f"neither {WEIGHTS} nor {INDEX}: it must be clear which are meant"
        )
    there = options.instead(directory)
    raise CheckpointError(
        f"{directory} has no *.safetensors file with the weights{there and f': {there}'}"
    )


def _weights(directory: Path) -> dict[str, Floats]:
    tensors: dict[str, Floats] = {}
    for file in weight_files(directory):
        for name, tensor in _tensors(file):
            if name in tensors:
                raise CheckpointError(f"{file}: {name} is also in another weight file")
            tensors[name] = tensor
    for prefix, inside in _WRAPPERS.items():
        if any(name.startswith(prefix) for name in tensors):
            raise CheckpointError(
                f"{directory}: the tensors are called {prefix}...: a wrapper is about the model: "
                f"save model.{inside}, of peft model.merge_and_unload(), by save_pretrained"
            )
    return tensors


def _shards(index: Path) -> list[Path]:
    try:
        names = sorted(set(json.loads(_bytes(index))["weight_map"].values()))
        files = [index.parent / str(name) for name in names]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CheckpointError(f"{index} lists no weight files: copy it again") from None
    for file in files:
        if file.name != str(file.relative_to(index.parent)) or not file.is_file():
            raise CheckpointError(f"{index} lists {file.name}, which is not beside it")
    return files


def _tensors(file: Path) -> Iterator[tuple[str, Floats]]:
    """Each is freed as it was read when the next one is asked for: a table may be most of it."""
    data = _bytes(file)
    if data.startswith(_POINTER):
        raise CheckpointError(
            f"{file} is a pointer of Git LFS, not the weights: run `git lfs pull` in its folder"
        )
    try:
        entries = deserialize(data)
    except SafetensorError as error:
        raise CheckpointError(
            f"{file} is not a valid safetensors file ({error}): copy it again"
        ) from None
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

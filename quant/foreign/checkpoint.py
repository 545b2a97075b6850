"""Reading a checkpoint directory in Hugging Face layout: its config, weights and tokenizer.

Weights come from safetensors only: a pickle (pytorch_model.bin) can run code when it is loaded, so
it is refused. Half precision and bfloat16 are widened to float32, which is exact. A checkpoint of
images has a front end (quant.foreign.vision) where one of texts has a tokenizer; one of rows has
neither.
"""

import hashlib
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

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
from quant.images.front import PROCESSORS, Front
from quant.model import distance
from quant.model import spec as kinds
from quant.model.spec import Arrays, CheckpointError, EncoderSpec, Floats, saying

DEFAULT_MODEL = MODEL

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
"""The one file of the weights, or the list of several, as `transformers` looks for them."""

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
_BUFFERS = ("position_ids", "token_type_ids")
"""Tensors of old checkpoints that hold no weights."""


@dataclass(frozen=True)
class Checkpoint:
    """An encoder as loaded: its spec, its float32 arrays, where they came from and their hash.

    resolved: its tokenizer; front: in its place, the front end of a model of images. One of rows
    has neither. asked: the task that was asked for, None for its own. notes: what was taken
    otherwise than a reader might expect, a sentence each. twin: the options of the class that
    `quant.foreign.proof` compares it with, which finds the difference.
    """

    spec: EncoderSpec
    arrays: Arrays
    directory: Path
    sha256: str
    resolved: Resolved | None
    asked: str | None = None
    notes: tuple[str, ...] = ()
    front: Front | None = None
    twin: Options | None = None
    difference: float | None = None

    def with_tokens(self, table: Floats) -> Self:
        """The same with another table of tokens [V, H]."""
        spec = replace(self.spec, vocabulary=len(table))
        return replace(self, spec=spec, arrays=self.arrays | {kinds.TABLE: table})


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
    file = layout.encoder / options.CONFIG
    raw = options.read(file, options.TEXT_SIDE if task == kinds.TEXT_SIDE else options.IMAGE_SIDE)
    family = layouts.FAMILIES.get(raw["model_type"]) or vision.FAMILIES.get(raw["model_type"])
    source = Tensors(_weights(layout.encoder))
    if family is None:
        can = ", ".join([*layouts.FAMILIES, *vision.FAMILIES])
        what = f"model_type {raw['model_type']!r} cannot run{source.difference()}; {can} can"
        how = "docs/extending.md shows how to add a family"
        raise CheckpointError(f"{file}: {what}, and {how}")
    config = Options(file, raw, family.renamed)
    try:
        if resolved is None and config.family in layouts.FAMILIES:
            config.complete()
        asked = None if task == kinds.TEXT_SIDE else task
        spec, arrays, notes, front = layouts.load(family, config, source, layout, asked)
        if source:
            what = f"has no place in this encoder ({len(source)} such tensors)"
            raise CheckpointError(f"the tensor {min(source)} {what}{source.difference()}")
    except ValueError as error:
        place = f"{directory if isinstance(error, CheckpointError) else file}: "
        said = "" if str(directory) in str(error) else place
        raise CheckpointError(f"{said}{error}") from None
    found, notes = _fingerprint(layout), [*layout.notes, *notes]
    twin = config if config.twin else None
    loaded = Checkpoint(spec, arrays, directory, found, None, task, tuple(notes), front, twin)
    if front is not None or spec.rows:
        return loaded
    return _of_texts(loaded, resolved or resolve.resolve(layout))


def _of_texts(loaded: Checkpoint, resolved: Resolved) -> Checkpoint:
    """With its tokenizer, to whose longest text, or that of an accelerator, positions are cut.

    Raises CheckpointError where the two do not fit.
    """
    spec, arrays, notes, place = loaded.spec, loaded.arrays, loaded.notes, loaded.directory
    wanted = min(resolved.tokens or spec.max_tokens, spec.max_tokens)
    tokens = min(wanted, TOKENS_MAX - spec.position_offset)  # rows before the first token count
    if tokens < wanted:
        most = f"{tokens:,} tokens, the most that an accelerator takes"
        notes += (f"texts are cut at {most}, where the checkpoint has {wanted:,}",)
    if tokens < spec.max_tokens:
        spec = replace(spec, positions=spec.position_offset + tokens)
        kept = {"embedding.position": arrays["embedding.position"][: spec.positions]}
        kept |= {name: x[:tokens] for name, x in arrays.items() if name.startswith("rotary.")}
        if spec.position_bias:
            kept[distance.BIAS] = distance.cut(arrays[distance.BIAS], tokens)
        arrays = arrays | kept
    tokenizer, last = TextTokenizer(resolved), resolved.special.get("eos")
    if tokenizer.rows > spec.vocabulary:
        ids, rows = f"ids up to {tokenizer.rows - 1}", f"the embedding {spec.vocabulary} rows"
        what = f"{place}: the tokenizer has {ids}, and {rows}"
        raise CheckpointError(f"{what}: one of the two is of another model")
    ends = f"{last}, with which the tokenizer ends a text"
    options.check(spec.end in (None, last), "eos_token_id", spec.end, ends, place)
    least = tokenizer.least(pair=spec.task == kinds.QUESTION_ANSWERING)
    room = f"{least} or more tokens, of which some are special, by tokenizer and positions"
    options.check(tokens >= least, "the longest text", tokens, room, place)
    return replace(loaded, spec=spec, arrays=arrays, resolved=resolved, notes=notes)


def say(checkpoint: Checkpoint) -> None:
    """The notes of a checkpoint, on stderr."""
    for note in checkpoint.notes:
        print(f"note: {checkpoint.directory}: {note}", file=sys.stderr, flush=True)


def _layout(directory: Path) -> Layout:
    if not directory.is_dir():
        what = f"it must exist and hold {options.CONFIG} and {WEIGHTS}"
        raise CheckpointError(f"no checkpoint directory {directory}: {what}")
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


def weight_files(directory: Path) -> list[Path]:
    """model.safetensors, else what its index lists, else the one file that there is."""
    files = {file.name: file for file in directory.glob("*.safetensors") if file.name[0] != "."}
    adapter = (directory / "adapter_config.json").is_file()
    if adapter or min(files, default="adapter").startswith("adapter"):
        none = f"{directory} has no *.safetensors file with the weights"
        raise CheckpointError(f"{none}: {options.WANTED}")
    index = directory / INDEX
    if WEIGHTS in files or (len(files) == 1 and not index.is_file()):
        return [files.get(WEIGHTS) or min(files.values())]
    shards: Any = options.json_object(index).get("weight_map") if index.is_file() else None
    listed = sorted({str(name) for name in shards.values()}) if isinstance(shards, dict) else []
    if not listed or not set(listed) <= set(files):
        which = f"must say which of {', '.join(sorted(files))} are meant, and does of {listed}"
        raise CheckpointError(f"{index} {which}: copy it")
    return [files[name] for name in listed]


def _weights(directory: Path) -> dict[str, Floats]:
    """Each entry of a file is freed when it is read: a table may be most of it."""
    tensors: dict[str, Floats] = {}
    advice = "copy it again, a pointer of Git LFS by `git lfs pull`"
    for file in weight_files(directory):
        with saying(CheckpointError, f"{file} is not a valid safetensors file", advice):
            entries = deserialize(file.read_bytes())
        while entries:
            name, entry = entries.pop(0)
            dtype, raw = entry["dtype"], entry["data"]
            if name.split(".")[-1] in _BUFFERS:
                continue
            if name in tensors:
                raise CheckpointError(f"{file}: {name} is also in another weight file")
            if dtype in _DTYPES:
                tensor = np.frombuffer(raw, _DTYPES[dtype]).astype(np.float32)
            elif dtype == "BF16":
                tensor = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
            else:
                wanted = "F32, F16, BF16 or F64, as the checkpoint has them before any quantization"
                raise CheckpointError(f"{file}: {name} has type {dtype}: weights must be {wanted}")
            tensors[name] = tensor.reshape(entry["shape"])
    return tensors

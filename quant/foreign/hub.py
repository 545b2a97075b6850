"""A checkpoint that the user names by its place on the Hugging Face hub: ``hub:owner/name``.

The only code of the project that uses the network, and only for such a name.
"""

from pathlib import Path

from cli.machine import BUILD

from quant.foreign.resolve import FILES
from quant.foreign.sentence import LENGTHS, MODULES, SETTINGS
from quant.images.files import saying
from quant.images.front import PROCESSORS
from quant.model.spec import CheckpointError

FOLDER = BUILD / "hub"

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
        folder = snapshot_download(
            repo, revision=revision or None, cache_dir=FOLDER, allow_patterns=_WANTED
        )
    return Path(folder)


def name_of(folder: Path) -> str:
    """What a checkpoint in ``folder`` is called: of a copy from the hub the model's name."""
    *_, repo, kept, last = ("", "", *folder.resolve().parts)
    owned = repo.split("--", 2)
    return owned[2] if (kept, owned[0], len(owned)) == ("snapshots", "models", 3) else last

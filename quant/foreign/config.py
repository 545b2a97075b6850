"""The options of a config.json: what the file says, and the defaults of its class.

`transformers` is asked for the class only where the file leaves something out, since its import
takes seconds.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quant.model.spec import CheckpointError, saying

CONFIG = "config.json"
IMAGE_SIDE, TEXT_SIDE = "vision", "text"
HEAD = ("architectures", "id2label", "label2id", "num_labels", "problem_type")

WANTED = (
    "a checkpoint has *.safetensors and config.json; no other format is read (pickles, GGUF, ONNX, "
    "TensorFlow, Flax), nor an adapter: fold it into its model (merge_and_unload in peft)"
)


def check(right: object, name: str, value: object, allowed: str, file: object = CONFIG) -> None:
    """Raises CheckpointError, which names an option, its value and what is allowed, if not right"""
    if not right:
        raise CheckpointError(f"{file}: {name} is {value!r}: it must be {allowed}")


class Options(dict[str, Any]):
    """The options of config.json. One that the file leaves out is taken from its class.

    file, family: the config.json and its model_type. given: the options of the file.
    seen: the names that a loader asked for. twin: the class of transformers that computes the same
    as the loader, "" where there is none.
    """

    def __init__(
        self, file: Path, given: Mapping[str, Any], renamed: Mapping[str, str] | None = None
    ) -> None:
        names = renamed or {}
        for old, new in names.items():
            both = f"left out: {new} is the same option"
            check(old not in given or new not in given, old, given.get(old), both, file)
        self.file, self.family = file, str(given["model_type"])
        self.given = {names.get(name, name): value for name, value in given.items()}
        self.seen: set[str] = {"model_type", *HEAD}
        self.twin = ""
        super().__init__(self.given)

    def __getitem__(self, name: str) -> Any:
        """The file's value, else the class's own, else None."""
        self.seen.add(name)
        if name not in self and name not in HEAD:
            self.complete()
        return super().get(name)

    def get(self, name: str, default: Any = None) -> Any:
        found = self[name]
        return default if found is None else found

    def said(self, name: str) -> Any:
        """The value where it is known without asking the class, else None."""
        self.seen.add(name)
        return super().get(name)

    def made(self, **given: Any) -> Any:
        """The config object of `transformers` with these options."""
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        return CONFIG_MAPPING[self.family](**given)

    def complete(self) -> None:
        """Fill in the class's own values; CheckpointError for one that the class does not take."""
        if self.family.startswith("bert2rtl-"):
            return
        given = {name: x for name, x in self.given.items() if name not in ("model_type", *HEAD)}
        advice = "give what the class takes there, or leave the option out"
        with saying(CheckpointError, f"{self.file}: transformers cannot read it", advice):
            found = self.made(**given).to_dict()
        self.update({name: x for name, x in found.items() if name not in HEAD})


def read(file: Path, side: str = IMAGE_SIDE) -> dict[str, Any]:
    """The options in `file`, of a whole model of images and texts those of one side and its head.

    Old files of CLIP also have `vision_config_dict` and `text_config_dict`, which take precedence.
    Raises CheckpointError for a file that is no JSON object or names no model_type.
    """
    if not file.is_file():
        raise CheckpointError(f"{file.parent} has no {CONFIG}: {WANTED}")
    raw = json_object(file)
    family = raw.get("model_type")
    check(isinstance(family, str), "model_type", family, "the name of a family", file)
    if not any(f"{one}_config{old}" in raw for one in ("text", "vision") for old in ("", "_dict")):
        whole = "that of a whole model of images and texts where one side is asked for"
        check(side != TEXT_SIDE, "model_type", family, whole, file)
        return raw
    name, wanted = f"{side}_config", f"{family}_{side}_model"
    found, older = (raw.get(key) or {} for key in (name, f"{name}_dict"))
    sound = isinstance(found, dict) and isinstance(older, dict)
    check(sound, name, found, "the options of one side", file)
    if older:
        found = Options(file, {"model_type": wanted}).made().to_dict() | older
    kind = found.get("model_type", wanted)
    check(kind == wanted, f"model_type in {name}", kind, f"{wanted!r}, as {family} has it", file)
    head = {name: raw[name] for name in HEAD if name in raw}
    own = {name: value for name, value in found.items() if name not in HEAD}
    return own | head | {"model_type": wanted}


def json_value(file: Path) -> Any:
    """The content of a JSON file; CheckpointError where it cannot be read."""
    try:
        return json.loads(file.read_bytes().decode())
    except OSError as error:
        raise CheckpointError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is not JSON: {error}") from None


def json_object(file: Path) -> dict[str, Any]:
    """The object that a JSON file holds; CheckpointError as json_value."""
    value = json_value(file)
    if not isinstance(value, dict):
        raise CheckpointError(f"{file} must hold a JSON object")
    return value

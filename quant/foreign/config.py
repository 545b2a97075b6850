"""The options of a config.json: what the file says, and the defaults of its class.

`transformers` is asked for the class only where the file leaves something out, since its import
takes seconds.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quant.model.spec import CheckpointError

CONFIG = "config.json"
IMAGE_SIDE, TEXT_SIDE = "vision", "text"
HEAD = ("architectures", "id2label", "label2id", "num_labels", "problem_type")

_FOLD = "(merge_and_unload in peft), save that, and give its folder"
_ORIGINAL = "give the checkpoint that it was made from, with its *.safetensors"
_INSTEAD = {
    "adapter*.safetensors": f"an adapter: fold it into its model {_FOLD}",
    "*.gguf": f"GGUF, the weights of llama.cpp: {_ORIGINAL}",
    "*.onnx": f"ONNX, a graph with its weights: {_ORIGINAL}",
    "onnx/*.onnx": f"ONNX, a graph with its weights: {_ORIGINAL}",
    "*.h5": f"the weights of TensorFlow: {_ORIGINAL}",
    "*.ckpt*": f"the weights of TensorFlow or Lightning: {_ORIGINAL}",
    "*.msgpack": f"the weights of Flax: {_ORIGINAL}",
    "*.tflite": f"a TensorFlow Lite model: {_ORIGINAL}",
}
"""Patterns of files that a folder may hold in place of readable weights."""
_PICKLES = ("*.bin", "*.pt", "*.pth")


class Options(dict[str, Any]):
    """The options of config.json. One that the file leaves out is taken from its class.

    file, family: the config.json and its model_type. given: the options of the file.
    seen: the names that a loader asked for.
    """

    def __init__(
        self, file: Path, given: Mapping[str, Any], renamed: Mapping[str, str] | None = None
    ) -> None:
        names = renamed or {}
        if twice := [name for name in names if name in given and names[name] in given]:
            raise CheckpointError(
                f"{file}: {twice[0]} and {names[twice[0]]} are one option: leave one of them out"
            )
        self.file, self.family = file, str(given["model_type"])
        self.given = {names.get(name, name): value for name, value in given.items()}
        self.seen: set[str] = {"model_type", *HEAD}
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
        """Fill in the class's own values, as the class reads the file.

        Raises CheckpointError for a value that the class does not take.
        """
        if self.family.startswith("bert2rtl-"):
            return
        given = {name: x for name, x in self.given.items() if name not in ("model_type", *HEAD)}
        try:
            found = self.made(**given).to_dict()
        except Exception as error:  # whatever the class has against the values
            said = " ".join(str(error).split())
            raise CheckpointError(
                f"{self.file}: transformers cannot read it ({said[:200].rstrip('.:')}): give what "
                "the class takes there, or leave the option out"
            ) from None
        self.update({name: x for name, x in found.items() if name not in HEAD})


def instead(folder: Path) -> str:
    """What lies in the folder in place of a checkpoint, and what to do; "" if nothing is known."""
    if (file := folder / "adapter_config.json").is_file():
        base = json_object(file).get("base_model_name_or_path")
        model = f"its model, {base}," if isinstance(base, str) and base else "its model"
        return f"{file.name} says that the folder holds an adapter: fold it into {model} {_FOLD}"
    for pattern, what in _INSTEAD.items():
        if files := sorted(folder.glob(pattern)):
            return f"{files[0].name} is {what}"
    if pickles := sorted(file for pattern in _PICKLES for file in folder.glob(pattern)):
        return (
            f"it has weights only as a pickle ({pickles[0].name}), which can run code when loaded "
            f"and is never read: save the model with safe_serialization=True"
        )
    return ""


def read(file: Path, side: str = IMAGE_SIDE) -> dict[str, Any]:
    """The options in `file`, of a whole model of images and texts those of one side.

    Raises CheckpointError for a file that is no JSON object or names no model_type.
    """
    if not file.is_file():
        there = instead(file.parent) or "is it a Hugging Face checkpoint?"
        raise CheckpointError(f"{file.parent} has no {CONFIG}: {there}")
    raw = json_object(file)
    family = raw.get("model_type")
    if not isinstance(family, str):
        raise CheckpointError(f"{file}: model_type is {family!r}: it must name the family")
    if any(f"{name}_config{old}" in raw for name in ("text", "vision") for old in ("", "_dict")):
        return _side(file, raw, f"{family}_{side}_model", side)
    if side == TEXT_SIDE:
        raise CheckpointError(
            f"{file}: model_type {family!r} is no whole model of images and texts, of which one "
            "side could be asked for: leave that out"
        )
    return raw


def _side(file: Path, raw: dict[str, Any], wanted: str, side: str) -> dict[str, Any]:
    """The options of one side, with those of its head.

    Old files of CLIP also have `vision_config_dict` and `text_config_dict`, which take precedence.
    """
    name = f"{side}_config"
    sides = [raw.get(key) or {} for key in (name, f"{name}_dict")]
    if not all(isinstance(found, dict) for found in sides):
        raise CheckpointError(f"{file}: {name} must hold the options of one side")
    found, older = sides
    if older:
        found = Options(file, {"model_type": wanted}).made().to_dict() | older
    if found.get("model_type", wanted) != wanted:
        raise CheckpointError(
            f"{file}: model_type in {name} is {found['model_type']!r}: it must be {wanted!r}, as "
            f"{raw['model_type']} has it"
        )
    head = {name: raw[name] for name in HEAD if name in raw}
    return (
        {name: x for name, x in found.items() if name not in HEAD} | head | {"model_type": wanted}
    )


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

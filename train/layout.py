"""Shared by the model classes of this project: config.json, and tensors found by their names."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from train.failure import TrainError


@dataclass(kw_only=True)
class Config:
    """The keys of config.json beside ``model_type``; named as in Hugging Face's BertConfig."""

    model_type: ClassVar[str]

    vocab_size: int = 30522
    hidden_size: int = 256
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    intermediate_size: int = 1024
    max_position_embeddings: int = 128
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    id2label: dict[int, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        labels = {str(index): label for index, label in self.id2label.items()}
        label2id = {label: index for index, label in self.id2label.items()}
        own = {**asdict(self), "id2label": labels, "label2id": label2id}
        return {"model_type": self.model_type, **own}

    @classmethod
    def read(cls, directory: Path) -> Self:
        values = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        known = {f.name for f in fields(cls)} & values.keys()
        config = cls(**{name: values[name] for name in known})
        config.id2label = {int(index): label for index, label in config.id2label.items()}
        return config


def load_matching(
    model: nn.Module, directory: Path, *, optional: str, ignored: tuple[str, ...] = ()
) -> None:
    """Load model.safetensors; parameters under ``optional`` may be absent or of another shape."""
    path = directory / "model.safetensors"
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise TrainError(f"{path} cannot be read: {error}") from None
    own = dict(model.named_parameters())
    unknown = [name for name in tensors if name not in own and not name.startswith(ignored)]
    unknown = [name for name in unknown if not name.startswith(optional)]
    if unknown:
        raise TrainError(f"{path} has an unknown tensor {unknown[0]!r}")
    for name, parameter in own.items():
        tensor = tensors.get(name)
        if tensor is not None and tensor.shape == parameter.shape:
            parameter.data.copy_(tensor)
        elif not name.startswith(optional):
            found = "is missing" if tensor is None else f"is {list(tensor.shape)}"
            raise TrainError(f"{path}: {name} {found}, expected {list(parameter.shape)}")

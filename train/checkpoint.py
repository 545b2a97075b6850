"""Checkpoint directories in the Hugging Face layout: config.json, model.safetensors, tokenizer.

The weights are written in half precision (the config says float32, so that from_pretrained widens
them again without loss), into a temporary directory that is then renamed.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors.torch import save_file
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertTokenizer,
)

from train.failure import TrainError
from train.heartbert import FusedConfig, FusedForSequenceClassification
from train.tokens import load_tokenizer

Classifier: TypeAlias = BertForSequenceClassification | FusedForSequenceClassification

FUSED = FusedConfig.model_type


def load_classifier(
    directory: Path, labels: Sequence[str], *, dropout: float, attention_dropout: float, seed: int
) -> Classifier:
    """The model of a checkpoint directory with a classifier for ``labels``.

    The classifier (and the pooler, where the checkpoint has none) is drawn anew with ``seed``
    unless the checkpoint has one of as many labels.
    Raises TrainError for what is no such checkpoint.
    """
    config = _read_config(directory)
    if not (directory / "model.safetensors").is_file():
        raise TrainError(f"{directory} has no model.safetensors (other formats are not read)")
    naming = {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: index for index, label in enumerate(labels)},
    }
    torch.manual_seed(seed)
    if config.get("model_type") == FUSED:
        return FusedForSequenceClassification.load(directory, labels=labels, dropout=dropout)
    if config.get("model_type") != "bert":
        raise TrainError(
            f"{directory} is a {config.get('model_type')!r} model: "
            f"fine-tuning reads model_type 'bert' and {FUSED!r}"
        )
    model: BertForSequenceClassification = BertForSequenceClassification.from_pretrained(
        directory,
        num_labels=len(labels),
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=attention_dropout,
        ignore_mismatched_sizes=True,
        use_safetensors=True,
        dtype=torch.float32,
        **naming,
    )
    return model


def new_bert(
    labels: Sequence[str],
    *,
    vocabulary: int,
    dropout: float,
    attention_dropout: float,
    seed: int,
    **shape: int,
) -> BertForSequenceClassification:
    """A BERT of ``shape`` with random weights (normal, deviation 0.02) drawn with ``seed``."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=attention_dropout,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
        **shape,
    )
    return BertForSequenceClassification(config)


def save_checkpoint(
    model: torch.nn.Module, tokenizer: BertTokenizer, directory: Path, card: str | None = None
) -> None:
    """Write the model in half precision, tokenizer and model card, replacing ``directory``."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = directory.with_name(f".{directory.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        config = {**model.config.to_dict(), "architectures": [type(model).__name__]}
        for name in ("_name_or_path", "transformers_version", "torch_dtype"):
            config.pop(name, None)
        config["dtype"] = "float32"
        _write_json(temporary / "config.json", config)
        tensors = {
            name: parameter.detach().to("cpu", torch.float16).contiguous()
            for name, parameter in model.named_parameters()  # a tied one appears once
        }
        save_file(tensors, temporary / "model.safetensors", metadata={"format": "pt"})
        (temporary / "model.safetensors").chmod(0o644)
        tokenizer.model_max_length = config["max_position_embeddings"]
        tokenizer.save_pretrained(temporary)
        words = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        text = "".join(f"{word}\n" for word, _ in words)
        (temporary / "vocab.txt").write_text(text, encoding="utf-8")
        if card is not None:
            (temporary / "README.md").write_text(card, encoding="utf-8")
        _swap(temporary, directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def checkpoint_tokenizer(directory: Path) -> BertTokenizer:
    """The tokenizer of a checkpoint directory, from its vocab.txt."""
    return load_tokenizer(directory / "vocab.txt")


def _swap(temporary: Path, directory: Path) -> None:
    old = directory.with_name(f".{directory.name}.old.{os.getpid()}")
    if directory.exists():
        directory.rename(old)
    temporary.rename(directory)
    shutil.rmtree(old, ignore_errors=True)


def _read_config(directory: Path) -> dict[str, Any]:
    path = directory / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TrainError(f"no checkpoint at {directory}: it has no config.json") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise TrainError(f"{path} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise TrainError(f"{path} is no JSON object")
    return config


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")

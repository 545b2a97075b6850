"""Checkpoint directories in the Hugging Face layout: config.json, model.safetensors, tokenizer.

The weights are written in half precision (the config says float32, so that from_pretrained widens
them again without loss), into a temporary directory that is then renamed.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from cli import files

import torch
from safetensors.torch import save_file
from transformers import (
    AlbertForSequenceClassification,
    BertForSequenceClassification,
    DistilBertForSequenceClassification,
    ElectraForSequenceClassification,
    RobertaForSequenceClassification,
)

from train.failure import TrainError
from train.heartbert import FusedConfig, FusedForSequenceClassification
from train.tokens import (
    CheckpointTokenizer,
    load_byte_pairs,
    load_tokenizer,
    save_tokenizer,
)
from train.transformer import TransformerConfig, TransformerForSequenceClassification

Classifier: TypeAlias = (
    BertForSequenceClassification
    | RobertaForSequenceClassification
    | ElectraForSequenceClassification
    | AlbertForSequenceClassification
    | DistilBertForSequenceClassification
    | FusedForSequenceClassification
    | TransformerForSequenceClassification
)

FUSED = FusedConfig.model_type
TRANSFORMER = TransformerConfig.model_type
_OF_TRANSFORMERS = {
    "bert": BertForSequenceClassification,
    "roberta": RobertaForSequenceClassification,
    "electra": ElectraForSequenceClassification,
    "albert": AlbertForSequenceClassification,
    "distilbert": DistilBertForSequenceClassification,
}


HEADS = "classifier", "bert.pooler", "albert.pooler", "pre_classifier"
"""What reads the encoder: the beginnings of the names of its parameters."""


def load_classifier(
    directory: Path, labels: Sequence[str], *, dropout: float, attention_dropout: float, seed: int
) -> Classifier:
    """The model of a checkpoint directory with a classifier for ``labels``.

    The classifier (and the pooler, where the checkpoint has none) is drawn anew with ``seed``
    unless the checkpoint has one of as many labels.
    Raises TrainError for what is no such checkpoint.
    """
    config = read_config(directory)
    if not (directory / "model.safetensors").is_file():
        raise TrainError(f"{directory} has no model.safetensors (other formats are not read)")
    naming = {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: index for index, label in enumerate(labels)},
    }
    torch.manual_seed(seed)
    if config.get("model_type") == FUSED:
        return FusedForSequenceClassification.load(directory, labels=labels, dropout=dropout)
    if config.get("model_type") == TRANSFORMER:
        return TransformerForSequenceClassification.load(
            directory, labels=labels, dropout=dropout, attention_dropout=attention_dropout
        )
    kind = _OF_TRANSFORMERS.get(config.get("model_type", ""))
    if kind is None:
        named = ", ".join(map(repr, (*_OF_TRANSFORMERS, FUSED)))
        raise TrainError(
            f"{directory} is a {config.get('model_type')!r} model: "
            f"fine-tuning reads model_type {named} and {TRANSFORMER!r}"
        )
    model: Classifier = kind.from_pretrained(
        directory,
        num_labels=len(labels),
        **_rates(kind, dropout, attention_dropout),
        ignore_mismatched_sizes=True,
        use_safetensors=True,
        dtype=torch.float32,
        **naming,
    )
    return model


def _rates(kind: Any, dropout: float, attention_dropout: float) -> dict[str, float]:
    """The fields of the config of a class of transformers."""
    if kind is DistilBertForSequenceClassification:
        return {"dropout": dropout, "attention_dropout": attention_dropout}
    return {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": attention_dropout}


def new_bert(
    labels: Sequence[str],
    *,
    kind: Any = BertForSequenceClassification,
    deviation: float | None,
    dropout: float,
    attention_dropout: float,
    seed: int,
    **fields: Any,
) -> Any:
    """A model of ``kind`` with random weights drawn with ``seed`` from normal distributions.

    Of BERT, or of a class of transformers with the same layers; ``fields`` are those of its config.

    Embeddings have the deviation 0.02. Linear layers have ``deviation``, or 1 / sqrt(inputs) for
    None, which leaves the variance of what goes through a layer as it is. BERT's 0.02 does about
    that for 768 inputs or more; with 128, the output of an attention is a twentieth of its input,
    and the model needs hundreds of steps to see the words at all.
    """
    torch.manual_seed(seed)
    config = kind.config_class(
        **_rates(kind, dropout, attention_dropout),
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
        **fields,
    )
    model = kind(config)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                wanted = module.in_features**-0.5 if deviation is None else deviation
                module.weight *= wanted / config.initializer_range
    return model


def save_checkpoint(
    model: torch.nn.Module,
    tokenizer: CheckpointTokenizer,
    directory: Path,
    card: str | None = None,
) -> None:
    """Write the model in half precision, tokenizer and model card, replacing ``directory``."""
    with files.replacing(directory) as temporary:
        temporary.mkdir()
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
        tokenizer.model_max_length = positions_of(config)
        save_tokenizer(tokenizer, temporary)
        if card is not None:
            (temporary / "README.md").write_text(card, encoding="utf-8")


def checkpoint_tokenizer(directory: Path) -> CheckpointTokenizer:
    """The tokenizer of a checkpoint directory: from vocab.txt, but of a RoBERTa."""
    if read_config(directory).get("model_type") == "roberta":
        return load_byte_pairs(directory)
    return load_tokenizer(directory / "vocab.txt")


def positions_of(config: Mapping[str, Any]) -> int:
    """Of how many tokens a text may be; a RoBERTa's begin after the row of pad_token_id."""
    unused = config.get("pad_token_id", 1) + 1 if config.get("model_type") == "roberta" else 0
    return int(config["max_position_embeddings"] - unused)


def read_config(directory: Path) -> dict[str, Any]:
    path = directory / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TrainError(f"no checkpoint at {directory}: it has no config.json") from None
    except (OSError, ValueError, RecursionError) as error:
        raise TrainError(f"{path} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise TrainError(f"{path} is no JSON object")
    return config


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")

"""The plain Transformer encoder as a PyTorch user writes it, with a linear classifier.

torch.nn.TransformerEncoder on token embeddings and sinusoidal positions (Vaswani et al., 2017). The
checkpoint has the names of its own state dict; docs/models.md lists them.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from quant.foreign.checkpoint import load
from quant.foreign.transformer import sinusoids
from train.failure import TrainError
from train.family_options import ACTIVATIONS
from train.layout import Config, load_matching

CHOICES = {"norm": "pre", "pooling": "mean", "activation": "relu", "unscaled": False}


@dataclass(kw_only=True)
class TransformerConfig(Config):
    """The keys of config.json; where its defaults differ from Config's, they are PyTorch's."""

    model_type: ClassVar[str] = "bert2rtl-transformer"

    hidden_act: str = "relu"
    layer_norm_eps: float = 1e-5
    norm_first: bool = True
    embedding_norm: bool = False
    final_norm: bool = True
    scale_embedding: bool = True
    pooling: str = "mean"


class TransformerForSequenceClassification(nn.Module):
    """Token ids and mask [batch, length] to logits [batch, labels]; a mask of 0 is padding."""

    def __init__(
        self, config: TransformerConfig, dropout: float = 0.1, attention_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.config = config
        if config.hidden_act not in ACTIVATIONS:
            raise TrainError(
                f"the activation {config.hidden_act!r} cannot be trained here: it must be one of "
                f"{', '.join(ACTIVATIONS)}"
            )
        hidden, eps = config.hidden_size, config.layer_norm_eps
        table = sinusoids(config.max_position_embeddings, hidden)
        self.register_buffer("positions", torch.from_numpy(table), persistent=False)
        self.embedding = nn.Embedding(config.vocab_size, hidden)
        self.embedding_norm = nn.LayerNorm(hidden, eps) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(
            hidden,
            config.num_attention_heads,
            config.intermediate_size,
            dropout,
            config.hidden_act,
            eps,
            batch_first=True,
            norm_first=config.norm_first,
        )
        layer.self_attn.dropout = attention_dropout
        self.encoder = nn.TransformerEncoder(
            layer,
            config.num_hidden_layers,
            norm=nn.LayerNorm(hidden, eps) if config.final_norm else None,
            enable_nested_tensor=False,
        )
        self.classifier = nn.Linear(hidden, len(config.id2label))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        if length > len(self.positions):
            raise TrainError(
                f"a sequence of {length} tokens: the model has {len(self.positions)} positions"
            )
        x = self.embedding(ids)
        if self.config.scale_embedding:
            x = x * sqrt(self.config.hidden_size)
        x = self.dropout(self.embedding_norm(x + self.positions[:length]))
        x = self.encoder(x, src_key_padding_mask=mask == 0)
        if self.config.pooling == "mean":
            valid = mask[..., None].to(x.dtype)
            x = (x * valid).sum(1) / valid.sum(1)
        else:
            x = x[:, 0]
        logits: torch.Tensor = self.classifier(self.dropout(x))
        return logits

    @classmethod
    def load(
        cls,
        directory: Path,
        *,
        labels: Sequence[str] | None = None,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
    ) -> "TransformerForSequenceClassification":
        """The model of a directory; a classifier that fits ``labels`` no more is drawn anew.

        Raises quant.model.spec.CheckpointError for what could not be calibrated either, and
        TrainError for what is not trained here.
        """
        checkpoint = load(directory)
        spec = checkpoint.spec
        fields = {
            "window": spec.windows,
            "position_bias": spec.position_bias,
            "rope_theta": spec.rotary,
            "gated": spec.gated,
            "rms_norm": spec.rms_norm,
            "num_key_value_heads": spec.kv_heads,
            "sinusoids": not checkpoint.arrays["embedding.position"].any(),
        }
        for name in (name for name, there in fields.items() if there):
            raise TrainError(
                f"{directory / 'config.json'}: {name} is another one than is trained here: train "
                "the model as you did before"
            )
        config = TransformerConfig.read(directory)
        if labels is not None:
            config.id2label = dict(enumerate(labels))
        model = cls(config, dropout, attention_dropout)
        load_matching(model, directory, optional="classifier.")
        return model


def new_transformer(
    labels: Sequence[str],
    *,
    deviation: float | None,
    dropout: float,
    attention_dropout: float,
    seed: int,
    **config: Any,
) -> TransformerForSequenceClassification:
    """A Transformer of these fields of TransformerConfig, its random weights drawn with ``seed``.

    Token embeddings have the deviation 1 after their scaling, as the positions have about; weights
    of the linear layers ``deviation``, or 1 / sqrt(inputs) for None; biases are 0.
    """
    torch.manual_seed(seed)
    made = TransformerConfig(id2label=dict(enumerate(labels)), **config)
    model = TransformerForSequenceClassification(made, dropout, attention_dropout)
    for name, parameter in model.named_parameters():
        if name == "embedding.weight":
            nn.init.normal_(parameter, std=embedding_deviation(made))
        elif parameter.ndim == 2:
            wanted = parameter.shape[1] ** -0.5 if deviation is None else deviation
            nn.init.normal_(parameter, std=wanted)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return model


def embedding_deviation(config: TransformerConfig) -> float:
    """By which the token embeddings have the deviation 1 where they meet the positions."""
    return config.hidden_size**-0.5 if config.scale_embedding else 1.0


def choices_of(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of TransformerConfig that settled options decide."""
    pre = options.norm == "pre"
    return {
        "norm_first": pre,
        "embedding_norm": not pre,
        "final_norm": pre,
        "scale_embedding": not options.unscaled,
        "pooling": options.pooling,
        "hidden_act": options.activation,
    }

"""A BERT encoder with fused Q, K and V and without a pooler, in plain PyTorch.

The shape is HeartBERT's (4 layers, hidden 256, 4 heads, feed-forward 1,024, 128 positions):
post-norm blocks, exact GELU, learned positions, segment embedding, and a linear
classifier straight on the output at [CLS]. The parameters, by their names in model.safetensors (H
hidden, F feed-forward, V vocabulary, P positions; a linear layer is y = x W^T + b, W [out, in]):

    embeddings.word.weight          [V, H]
    embeddings.position.weight      [P, H]
    embeddings.segment.weight       [2, H]
    embeddings.norm.{weight,bias}   [H]
    layers.N.qkv.{weight,bias}      [3H, H], [3H]     rows: Q of all heads, K of all heads, V
    layers.N.attention.{weight,bias}    [H, H], [H]   the output projection
    layers.N.attention_norm.{weight,bias}   [H]
    layers.N.intermediate.{weight,bias}     [F, H], [F]
    layers.N.output.{weight,bias}           [H, F], [H]
    layers.N.output_norm.{weight,bias}      [H]
    classifier.{weight,bias}        [labels, H], [labels]     (fine-tuned checkpoints)
    mlm.transform.{weight,bias}     [H, H], [H]               (pre-trained ones; the decoder is
    mlm.norm.{weight,bias}, mlm.bias    [H], [V]              embeddings.word.weight)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional

from train.failure import TrainError
from train.layout import Config, load_matching


@dataclass(kw_only=True)
class FusedConfig(Config):
    """The keys of config.json beside ``model_type``; named as in Hugging Face's BertConfig."""

    model_type: ClassVar[str] = "bert2rtl-fused"

    type_vocab_size: int = 2


class FusedEncoder(nn.Module):
    """Token ids and mask [batch, length] to hidden states [batch, length, hidden]."""

    def __init__(self, config: FusedConfig, dropout: float) -> None:
        super().__init__()
        if config.hidden_size % config.num_attention_heads:
            raise TrainError(
                f"hidden size {config.hidden_size} is no multiple of "
                f"{config.num_attention_heads} heads"
            )
        self.embeddings = _Embeddings(config, dropout)
        self.layers = nn.ModuleList(
            _Layer(config, dropout) for _ in range(config.num_hidden_layers)
        )

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.embeddings(ids)
        keys = mask[:, None, None, :].bool()
        for layer in self.layers:
            x = layer(x, keys)
        return x


class FusedForSequenceClassification(FusedEncoder):
    """The encoder with ``logits = classifier(dropout(x[CLS]))``."""

    def __init__(self, config: FusedConfig, dropout: float = 0.1) -> None:
        super().__init__(config, dropout)
        self.config = config
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(config.hidden_size, len(config.id2label))
        self.apply(_initialise)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.classifier(self.dropout(super().forward(ids, mask)[:, 0]))
        return logits

    @classmethod
    def load(
        cls, directory: Path, *, labels: Sequence[str] | None = None, dropout: float = 0.0
    ) -> "FusedForSequenceClassification":
        """The model of a directory; a classifier that fits ``labels`` no more is drawn anew."""
        config = FusedConfig.read(directory)
        if labels is not None:
            config.id2label = dict(enumerate(labels))
        model = cls(config, dropout)
        load_matching(model, directory, optional="classifier.", ignored=("mlm.",))
        return model


class FusedForMaskedLM(FusedEncoder):
    """The encoder with BERT's language-model head; the decoder is tied to the word embeddings."""

    def __init__(self, config: FusedConfig, dropout: float = 0.1) -> None:
        super().__init__(config, dropout)
        self.config = config
        self.mlm = _Head(config)
        self.apply(_initialise)

    def hidden_to_logits(self, x: torch.Tensor) -> torch.Tensor:
        """Hidden states [n, hidden] of the predicted places to logits [n, vocabulary]."""
        x = self.mlm.norm(functional.gelu(self.mlm.transform(x)))
        return functional.linear(x, self.embeddings.word.weight, self.mlm.bias)


class _Embeddings(nn.Module):
    def __init__(self, config: FusedConfig, dropout: float) -> None:
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.segment = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        if length > self.position.num_embeddings:
            raise TrainError(
                f"a sequence of {length} tokens: the model has {self.position.num_embeddings} "
                "positions"
            )
        x = self.word(ids) + self.position.weight[:length] + self.segment.weight[0]
        x = self.dropout(self.norm(x))
        return x


class _Layer(nn.Module):
    def __init__(self, config: FusedConfig, dropout: float) -> None:
        super().__init__()
        hidden, inner, eps = config.hidden_size, config.intermediate_size, config.layer_norm_eps
        self.heads = config.num_attention_heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.attention = nn.Linear(hidden, hidden)
        self.attention_norm = nn.LayerNorm(hidden, eps=eps)
        self.intermediate = nn.Linear(hidden, inner)
        self.output = nn.Linear(inner, hidden)
        self.output_norm = nn.LayerNorm(hidden, eps=eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        batch, length, hidden = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each [batch, heads, length, head size]
        context = functional.scaled_dot_product_attention(q, k, v, attn_mask=keys)
        context = context.transpose(1, 2).reshape(batch, length, hidden)
        x = self.attention_norm(x + self.dropout(self.attention(context)))
        inner = functional.gelu(self.intermediate(x))
        x = self.output_norm(x + self.dropout(self.output(inner)))
        return x


class _Head(nn.Module):
    def __init__(self, config: FusedConfig) -> None:
        super().__init__()
        self.transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))


def _initialise(module: nn.Module) -> None:
    """BERT's initialisation: normal with deviation 0.02, biases 0."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)

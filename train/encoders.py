"""The two layouts of this project's own (docs/models.md), for transformers to train.

`bert2rtl-fused` is a BERT with one projection for Q, K and V, and the classifier on [CLS] without a
pooler: it is trained as transformers' BERT, and its tensors are renamed in files.
`bert2rtl-transformer` is torch.nn.TransformerEncoder on token embeddings and sinusoidal positions
(Vaswani et al., 2017), and the classifier on the mean of the tokens.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.errors import UserError

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from transformers import (
    BertConfig,
    BertModel,
    BertPreTrainedModel,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.loss.loss_utils import ForSequenceClassificationLoss
from transformers.modeling_outputs import SequenceClassifierOutput

FUSED, PLAIN = "bert2rtl-fused", "bert2rtl-transformer"
IGNORED = -100  # a label that is none, as torch's cross entropy has it

_NAMES = {
    "embeddings.word": "bert.embeddings.word_embeddings",
    "embeddings.position": "bert.embeddings.position_embeddings",
    "embeddings.segment": "bert.embeddings.token_type_embeddings",
    "embeddings.norm": "bert.embeddings.LayerNorm",
    "classifier": "classifier",
    "mlm.transform": "cls.predictions.transform.dense",
    "mlm.norm": "cls.predictions.transform.LayerNorm",
    "mlm": "cls.predictions",
}
_OF_LAYER = {
    "attention": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_norm": "output.LayerNorm",
}
_QKV = [f"attention.self.{name}" for name in ("query", "key", "value")]
_KEYS = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "hidden_act"),
    *("intermediate_size", "type_vocab_size", "layer_norm_eps", "max_position_embeddings"),
    "pad_token_id",
)


def _names(layers: int) -> dict[str, str]:
    """The names of tensors in a fused file, by BERT's; but for those of Q, K and V."""
    modules = _NAMES | {
        f"layers.{i}.{own}": f"bert.encoder.layer.{i}.{name}"
        for i in range(layers)
        for own, name in _OF_LAYER.items()
    }
    parts = ("weight", "bias")
    return {f"{own}.{part}": f"{name}.{part}" for own, name in modules.items() for part in parts}


def _projections(layers: int) -> dict[str, list[str]]:
    """The names of BERT's Q, K and V by that of the tensor which holds them."""
    return {
        f"layers.{i}.qkv.{part}": [f"bert.encoder.layer.{i}.{name}.{part}" for name in _QKV]
        for i in range(layers)
        for part in ("weight", "bias")
    }


class Fused(BertPreTrainedModel):
    """logits = classifier(dropout(x[CLS]))."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
    ) -> SequenceClassifierOutput:
        states = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        return _answer(self, self.classifier(self.dropout(states[:, 0])), labels)


def save_fused(model: Any, folder: Path) -> None:
    """Write a BERT that has no pooler as `bert2rtl-fused`."""
    state, fields = model.state_dict(), model.config.to_dict()
    layers = model.config.num_hidden_layers
    tensors = {own: state[name] for own, name in _names(layers).items() if name in state}
    for own, names in _projections(layers).items():
        tensors[own] = torch.cat([state[name] for name in names])
    keys = [*_KEYS, *(("id2label", "label2id", "problem_type") if isinstance(model, Fused) else ())]
    config = {"model_type": FUSED} | {key: fields[key] for key in keys}
    folder.joinpath("config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({name: x.contiguous() for name, x in tensors.items()}, folder / "model.safetensors")


def load_fused(folder: Path, config: Mapping[str, Any], answers: Mapping[str, Any]) -> Fused:
    """The model of a folder; a classifier of another size stays as it is drawn."""
    model = Fused(BertConfig(**{key: config[key] for key in _KEYS}, **answers))
    found, state = load_file(folder / "model.safetensors"), model.state_dict()
    for own, name in _names(model.config.num_hidden_layers).items():
        fits = name in state and own in found and found[own].shape == state[name].shape
        if fits:
            state[name] = found[own]
        elif name in state and not name.startswith("classifier"):
            raise UserError(f"{folder}: {own} is missing, or has another shape than config.json")
    for own, names in _projections(model.config.num_hidden_layers).items():
        state |= dict(zip(names, found[own].chunk(3)))
    model.load_state_dict(state)
    return model


class PlainConfig(PreTrainedConfig):
    """The fields of config.json; the defaults are those of a new model."""

    model_type = PLAIN

    vocab_size: int = 30522
    hidden_size: int = 128
    num_hidden_layers: int = 2
    num_attention_heads: int = 2
    intermediate_size: int = 512
    max_position_embeddings: int = 512
    hidden_act: str = "relu"
    layer_norm_eps: float = 1e-5
    norm_first: bool = True
    embedding_norm: bool = False
    final_norm: bool = True
    scale_embedding: bool = True
    pooling: str = "mean"
    pad_token_id: int | None = 0
    dropout: float = 0.1
    initializer_range: float = 0.02


_UNTRAINED: dict[str, Any] = {
    **dict.fromkeys(("window", "rope_theta", "num_key_value_heads")),
    **dict.fromkeys(("gated", "rms_norm", "rows"), False),
    "position_bias": "none",
    "sinusoids": True,
}
"""Fields of a `bert2rtl-transformer` that are not trained here, and their defaults."""


class Plain(PreTrainedModel):
    """A `bert2rtl-transformer`."""

    config_class = PlainConfig
    base_model_prefix = ""

    def __init__(self, config: PlainConfig) -> None:
        super().__init__(config)
        for name, default in _UNTRAINED.items():
            if getattr(config, name, default) != default:
                raise UserError(
                    f"config.json: {name} is {getattr(config, name)!r}: only {default!r} is "
                    "trained here; train the model where it was made"
                )
        hidden, eps = config.hidden_size, config.layer_norm_eps
        self.embedding = nn.Embedding(config.vocab_size, hidden)
        self.embedding_norm = nn.LayerNorm(hidden, eps) if config.embedding_norm else nn.Identity()
        layer = nn.TransformerEncoderLayer(
            hidden,
            config.num_attention_heads,
            config.intermediate_size,
            config.dropout,
            config.hidden_act,
            eps,
            batch_first=True,
            norm_first=config.norm_first,
        )
        layer.self_attn.dropout = 0.0
        norm = nn.LayerNorm(hidden, eps) if config.final_norm else None
        layers = config.num_hidden_layers
        self.encoder = nn.TransformerEncoder(layer, layers, norm, enable_nested_tensor=False)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(hidden, config.num_labels)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        labels: torch.Tensor | None = None,
    ) -> SequenceClassifierOutput:
        x = self.embedding(input_ids)
        if self.config.scale_embedding:
            x = x * self.config.hidden_size**0.5
        x = self.dropout(self.embedding_norm(x + sinusoids(*x.shape[1:]).to(x.device)))
        x = self.encoder(x, src_key_padding_mask=attention_mask == 0)
        if self.config.pooling == "first":
            pooled = x[:, 0]
        else:
            valid = attention_mask[..., None].to(x.dtype)
            pooled = (x * valid).sum(1) / valid.sum(1)
        return _answer(self, self.classifier(self.dropout(pooled)), labels)


def sinusoids(length: int, hidden: int) -> torch.Tensor:
    """Positions [length, hidden]: sin(p / 10000^(2i / hidden)) in 2i, its cosine in 2i + 1."""
    rates = 10000.0 ** (-torch.arange(0, hidden, 2, dtype=torch.float64) / hidden)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], 2).reshape(length, hidden).float()


def _answer(
    model: PreTrainedModel, logits: torch.Tensor, labels: torch.Tensor | None
) -> SequenceClassifierOutput:
    """The logits, and where there are labels the loss of the config's problem_type."""
    if labels is None:
        return SequenceClassifierOutput(logits=logits)
    loss = ForSequenceClassificationLoss(labels, logits, model.config)
    return SequenceClassifierOutput(loss=loss, logits=logits)


def only_masked(model: Any) -> None:
    """Make a BERT decode the places to predict alone, which are a seventh of all."""

    def forward(
        input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        states = model.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        chosen = labels != IGNORED
        logits = model.cls(states[chosen])
        return {"loss": functional.cross_entropy(logits, labels[chosen]), "logits": logits}

    model.forward = forward

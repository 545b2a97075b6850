"""The two layouts of this project's own (docs/models.md), for transformers to train.

`bert2rtl-fused` is a BERT with one projection for Q, K and V, and the classifier on [CLS] without a
pooler: it is trained as transformers' BERT, and its tensors are renamed in files.
`bert2rtl-transformer` is torch.nn.TransformerEncoder on token embeddings and sinusoidal positions
(Vaswani et al., 2017), and the classifier on the mean of the tokens.
"""

import json
from pathlib import Path
from typing import Any

from cli.errors import UserError

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForTokenClassification, PreTrainedConfig, PreTrainedModel
from transformers.loss.loss_utils import ForSequenceClassificationLoss
from transformers.modeling_outputs import SequenceClassifierOutput

from quant.foreign.transformer import sinusoids

FUSED, PLAIN = "bert2rtl-fused", "bert2rtl-transformer"
WEIGHTS = "model.safetensors"
IGNORED = -100  # a label that is none, as torch's cross entropy has it

_NAMES = {
    "bert.encoder.layer.": "layers.",
    "bert.embeddings.word_embeddings.": "embeddings.word.",
    "bert.embeddings.position_embeddings.": "embeddings.position.",
    "bert.embeddings.token_type_embeddings.": "embeddings.segment.",
    "bert.embeddings.LayerNorm.": "embeddings.norm.",
    ".attention.output.dense.": ".attention.",
    ".attention.output.LayerNorm.": ".attention_norm.",
    ".intermediate.dense.": ".intermediate.",
    ".output.dense.": ".output.",
    ".output.LayerNorm.": ".output_norm.",
    "cls.predictions.transform.dense.": "mlm.transform.",
    "cls.predictions.transform.LayerNorm.": "mlm.norm.",
    "cls.predictions.": "mlm.",
}
"""What stands in the names of BERT's tensors, and in those of a fused file."""
_KEYS = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "hidden_act"),
    *("intermediate_size", "type_vocab_size", "layer_norm_eps", "max_position_embeddings"),
)


class Fused(BertForTokenClassification):
    """logits = classifier(dropout(x[CLS])), trained under BERT's names."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None
    ) -> SequenceClassifierOutput:
        every = super().forward(input_ids, attention_mask=attention_mask).logits
        return _answer(self, every[:, 0], labels)


def _place(name: str) -> tuple[str, int]:
    """Where a tensor of BERT is in a fused file: its name there, and which third of Q, K and V."""
    third = 0
    for i, part in enumerate(("query", "key", "value")):
        if f".attention.self.{part}." in name:
            name, third = name.replace(f"attention.self.{part}", "qkv"), i
    for theirs, own in _NAMES.items():
        name = name.replace(theirs, own)
    return name, third


def save_fused(model: Any, folder: Path) -> None:
    """Write a BERT without pooler, for classes or masked words, as `bert2rtl-fused`."""
    parts: dict[str, list[Tensor]] = {}
    for name, tensor in model.state_dict().items():  # Q, K and V in this order
        if ".decoder." not in name:  # the word embeddings again
            parts.setdefault(_place(name)[0], []).append(tensor)
    save_file({name: torch.cat(found) for name, found in parts.items()}, folder / WEIGHTS)
    keys = [*_KEYS, *(("id2label", "label2id", "problem_type") if isinstance(model, Fused) else ())]
    config = {"model_type": FUSED} | {key: model.config.to_dict()[key] for key in keys}
    folder.joinpath("config.json").write_text(json.dumps(config, indent=2) + "\n")


def load_fused(folder: Path, config: dict[str, Any], answers: dict[str, Any]) -> Fused:
    """The model of a folder; a classifier of another size stays as it is drawn."""
    model = Fused(BertConfig(**{key: config[key] for key in _KEYS}, **answers))
    found, state = load_file(folder / WEIGHTS), model.state_dict()
    for name, drawn in state.items():
        place, third = _place(name)
        tensor = found.get(place, torch.empty(0))
        tensor = tensor.chunk(3)[third] if ".qkv." in place and len(tensor) else tensor
        if tensor.shape == drawn.shape:
            state[name] = tensor
        elif not name.startswith("classifier."):
            raise UserError(f"{folder}: {place} is missing, or has another shape than config.json")
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


_UNTRAINED: dict[str, Any] = dict.fromkeys(("window", "rope_theta", "num_key_value_heads"))
_UNTRAINED |= dict.fromkeys(("gated", "rms_norm", "rows"), False)
_UNTRAINED |= {"position_bias": "none", "sinusoids": True}
"""Fields of a `bert2rtl-transformer` that are not trained here, and their defaults."""


class Plain(PreTrainedModel):
    """A `bert2rtl-transformer`."""

    config_class = PlainConfig
    base_model_prefix = ""

    def __init__(self, config: PlainConfig) -> None:
        super().__init__(config)
        for name, default in _UNTRAINED.items():
            if (value := getattr(config, name, default)) != default:
                raise UserError(
                    f"config.json: {name} is {value!r}: only {default!r} is trained here"
                )
        hidden, eps = config.hidden_size, config.layer_norm_eps
        self.embedding = nn.Embedding(config.vocab_size, hidden)
        self.embedding_norm = nn.LayerNorm(hidden, eps) if config.embedding_norm else nn.Identity()
        heads, inner = config.num_attention_heads, config.intermediate_size
        sizes = (hidden, heads, inner, config.dropout, config.hidden_act, eps)
        layer = nn.TransformerEncoderLayer(*sizes, True, config.norm_first)
        norm = nn.LayerNorm(hidden, eps) if config.final_norm else None
        layers = config.num_hidden_layers
        self.encoder = nn.TransformerEncoder(layer, layers, norm, enable_nested_tensor=False)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(hidden, config.num_labels)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None
    ) -> SequenceClassifierOutput:
        x = self.embedding(input_ids)
        if self.config.scale_embedding:
            x = x * self.config.hidden_size**0.5
        x = self.dropout(self.embedding_norm(x + torch.from_numpy(sinusoids(*x.shape[1:])).to(x)))
        x = self.encoder(x, src_key_padding_mask=attention_mask == 0)
        read = attention_mask[..., None].to(x.dtype)
        if self.config.pooling == "first":
            read[:, 1:] = 0
        pooled = (x * read).sum(1) / read.sum(1)
        return _answer(self, self.classifier(self.dropout(pooled)), labels)


def _answer(
    model: PreTrainedModel, logits: Tensor, labels: Tensor | None
) -> SequenceClassifierOutput:
    """The logits, and where there are labels the loss of the config's problem_type."""
    known = labels is not None
    loss = ForSequenceClassificationLoss(labels, logits, model.config) if known else None
    return SequenceClassifierOutput(loss=loss, logits=logits)


def only_masked(model: Any) -> None:
    """Make a BERT decode the places to predict alone, which are a seventh of all."""

    def forward(input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        states = model.bert(input_ids, attention_mask=attention_mask).last_hidden_state
        chosen = labels != IGNORED
        logits = model.cls(states[chosen])
        return {"loss": functional.cross_entropy(logits, labels[chosen]), "logits": logits}

    model.forward = forward

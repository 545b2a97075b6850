"""Access to a checkpoint for loaders: tensors by their names, and the fields of its config."""

import re
import sys
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from quant.model.activation import ACTIVATIONS
from quant.model.position_bias import BIAS, bucketed
from quant.model.spec import (
    CLASSIFICATION,
    MULTI_LABEL,
    REGRESSION,
    Arrays,
    CheckpointError,
    Floats,
)

Config = Mapping[str, Any]
Encoder: TypeAlias = tuple[Arrays, dict[str, Any]]
"""The arrays of an encoder, and the fields of its spec that are not those of every BERT."""

_ACTIVATIONS = {theirs: ours for ours, entry in ACTIVATIONS.items() for theirs in entry.names}
BUFFERS = ("position_ids", "token_type_ids")
"""Tensors of old checkpoints that hold no weights."""

FURTHEST_MAX = 10**300
"""Of a bucket's distance, which is divided as a float64."""

QK_NORM = "a norm of Q and K behind their projections (QK-norm), which has no operation"
EXPERTS = "experts, of which a router chooses some for each token, where a layer has one network"
CROSS = "attention to another sequence (cross-attention), where a layer attends to its own"
_PARTS = (
    (r"\b(q|k|query|key)_?(ln|norm|layernorm)\b", QK_NORM),
    (r"\b(experts?|router)\b", EXPERTS),
    (r"\b(crossattention|cross_attn|encoder_attn)\b", CROSS),
    (r"\b(rel_embeddings|pos_(key|query)_proj|pos_q?_?proj)\b", "attention between words and "
     "distances (disentangled attention), whose products have no operation"),
    (r"\blora_", "LoRA adapters: fold one into its model (merge_and_unload in peft)"),
)  # fmt: skip
"""What tensors without a place are of, by their names, where more can be said than the name."""


class Tensors:
    """The tensors of a checkpoint; each is taken once, under the name that the spec gives it."""

    def __init__(self, tensors: Mapping[str, Floats]) -> None:
        self._left = dict(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    @property
    def names(self) -> list[str]:
        """Of those that were not taken yet."""
        return list(self._left)

    def width(self, name: str) -> int:
        """Rows of a tensor; 0 where there is none."""
        tensor = self._left.get(name)
        return 0 if tensor is None or not tensor.ndim else len(tensor)

    def take(self, name: str) -> Floats:
        """Raises CheckpointError when the checkpoint has no such tensor left."""
        if name not in self._left:
            hint = " (a layer without one has zeros there)" if name.endswith("bias") else ""
            raise CheckpointError(f"the tensor {name} is missing{hint}")
        return self._left.pop(name)

    def table(self, name: str) -> Floats:
        """A tensor that must be a matrix."""
        table = self.take(name)
        if table.ndim != 2:
            raise CheckpointError(f"{name} has shape {table.shape}: a row for each entry is needed")
        return table

    def rows(self, name: str) -> Floats:
        """The rows of a tensor [1, rows, channels]."""
        tensor = self.take(name)
        if tensor.ndim != 3 or len(tensor) != 1:
            raise CheckpointError(
                f"{name} has shape {tensor.shape}: it must be 1 x rows x the hidden size"
            )
        return tensor[0]

    def linear(self, name: str, *targets: str, joint: str = ".", bias: bool = True) -> Arrays:
        """A linear layer; with several targets its outputs are split into that many equal parts.

        ``joint`` stands between its name and "weight" or "bias". Without ``bias`` it is zero.
        """
        weight = self.take(f"{name}{joint}weight")
        shift = self.take(f"{name}{joint}bias") if bias else np.zeros(len(weight), np.float32)
        if weight.ndim != 2 or shift.shape != weight.shape[:1] or len(shift) % len(targets):
            raise CheckpointError(
                f"{name} has shapes {weight.shape} and {shift.shape}: a matrix and a bias of "
                f"as many rows are needed, {len(targets)} equal parts"
            )
        arrays: Arrays = {}
        for target, w, b in zip(
            targets, np.split(weight, len(targets)), np.split(shift, len(targets))
        ):
            arrays |= {f"{target}.weight": w, f"{target}.bias": b}
        return arrays

    def prefix(self, family: str) -> str:
        """What the names begin with: the family's name, but for an encoder saved alone."""
        prefix = f"{family}."
        return prefix if any(name.startswith(prefix) for name in self._left) else ""

    def drop(self, *prefixes: str) -> list[str]:
        """Leave out what only training needs; the names."""
        dropped = [name for name in self._left if name.startswith(prefixes)]
        for name in dropped:
            del self._left[name]
        return dropped

    def norm(self, name: str, target: str, bias: bool = True) -> Arrays:
        """A norm; without ``bias`` its beta is zero."""
        if not bias:
            gamma = self.take(f"{name}.weight")
            return {f"{target}.gamma": gamma, f"{target}.beta": np.zeros_like(gamma)}
        old = f"{name}.gamma" in self  # names of checkpoints converted from TensorFlow
        scale, shift = ("gamma", "beta") if old else ("weight", "bias")
        return {
            f"{target}.gamma": self.take(f"{name}.{scale}"),
            f"{target}.beta": self.take(f"{name}.{shift}"),
        }

    def position_bias(self, name: str, buckets: int, furthest: int, tokens: int) -> Arrays:
        """The bias of sequences of up to `tokens` tokens, of a table [buckets, heads].

        Raises CheckpointError for numbers that no bucket of a distance follows from: transformers
        divides by zero there, or reads outside of the table.
        """
        if buckets < 4 or not buckets // 4 < furthest <= FURTHEST_MAX:
            raise CheckpointError(
                f"config.json: relative_attention_num_buckets is {buckets} and "
                f"relative_attention_max_distance {furthest}: they must be 4 or more, and more "
                f"than a fourth of the buckets, up to {FURTHEST_MAX:.0e}"
            )
        table = self.table(name)
        if len(table) != buckets:
            raise CheckpointError(
                f"{name} has {len(table)} rows: there must be {buckets}, one for each bucket of "
                "distances"
            )
        return {BIAS: bucketed(table, tokens, furthest)}

    def refuse_rest(self) -> None:
        if self._left:
            name = min(self._left)
            why = next((f": {what}" for part, what in _PARTS if re.search(part, name)), "")
            raise CheckpointError(
                f"the tensor {name} has no place in this encoder "
                f"({len(self._left)} such tensors){why}"
            )


def clip_layers(tensors: Tensors, source: str, layers: int) -> Arrays:
    """The layers of both sides of CLIP and of SigLIP, whose names begin with `source`."""
    arrays: Arrays = {}
    for i in range(layers):
        layer, target = f"{source}.{i}", f"layer.{i}"
        for name in "qkv":
            arrays |= tensors.linear(f"{layer}.self_attn.{name}_proj", f"{target}.{name}")
        arrays |= tensors.linear(f"{layer}.self_attn.out_proj", f"{target}.o")
        arrays |= tensors.norm(f"{layer}.layer_norm1", f"{target}.norm1")
        arrays |= tensors.linear(f"{layer}.mlp.fc1", f"{target}.ffn.up")
        arrays |= tensors.linear(f"{layer}.mlp.fc2", f"{target}.ffn.down")
        arrays |= tensors.norm(f"{layer}.layer_norm2", f"{target}.norm2")
    return arrays


def integer(config: Config, name: str) -> int:
    value = config.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise CheckpointError(f"config.json: {name} is {value!r}: it must be an integer")
    return value


def number(config: Config, name: str, default: float | None = None) -> float:
    """A field that must be there where no default is given."""
    value = config.get(name, default)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if not numeric or not abs(value) <= sys.float_info.max:
        raise CheckpointError(f"config.json: {name} is {value!r}: it must be a finite number")
    return float(value)


def boolean(config: Config, name: str) -> bool:
    value = config.get(name)
    if not isinstance(value, bool):
        raise CheckpointError(f"config.json: {name} is {value!r}: it must be true or false")
    return value


def head_size(hidden: int, heads: int) -> int:
    if heads < 1 or hidden % heads:
        raise CheckpointError(
            f"config.json: a hidden size of {hidden} cannot be split into {heads} heads"
        )
    return hidden // heads


def activation(config: Config, name: str, default: str | None = "gelu") -> str:
    """A field that must be there where the default is None."""
    value = config.get(name, default)
    if not isinstance(value, str) or value not in _ACTIVATIONS:
        raise CheckpointError(
            f"layer.0.ffn.up: the activation {value!r} is not supported: "
            f"it must be one of {', '.join(_ACTIVATIONS)}"
        )
    return _ACTIVATIONS[value]


def bert_fields(config: Config) -> dict[str, Any]:
    """The fields of an EncoderSpec that have BERT's options."""
    hidden, count = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    return {
        "layers": integer(config, "num_hidden_layers"),
        "hidden": hidden,
        "heads": count,
        "head_size": head_size(hidden, count),
        "ffn": integer(config, "intermediate_size"),
        "vocabulary": integer(config, "vocab_size"),
        "positions": integer(config, "max_position_embeddings"),
        "types": integer(config, "type_vocab_size"),
        "activation": activation(config, "hidden_act"),
        "epsilon": number(config, "layer_norm_eps", 1e-12),
    }


def labels_of(config: Config, classifier: Floats) -> tuple[str, ...]:
    """Names from id2label; a config that leaves out the default two still has LABEL_0, LABEL_1."""
    count = classifier.shape[0]
    names = config.get("id2label") or {str(i): f"LABEL_{i}" for i in range(count)}
    if not isinstance(names, dict):
        raise CheckpointError(
            f"config.json: id2label is {names!r}: it must name each output, as in "
            '{"0": "negative", "1": "positive"}'
        )
    outputs = [str(i) for i in range(count)]
    wrong = [f"output {i} has no name" for i in outputs if i not in names]
    wrong += [f"there is no output {i}" for i in names if i not in outputs]
    if wrong:
        raise CheckpointError(
            f"classifier has {count} outputs, but id2label in config.json names {len(names)} "
            f"labels: {wrong[0]}"
        )
    if config.get("num_labels") not in (None, count):
        raise CheckpointError(
            f"config.json: num_labels is {config['num_labels']!r}, but classifier has {count} "
            "outputs, as id2label has names: leave it out"
        )
    labels = [names[i] for i in outputs]
    for index, name in enumerate(labels):
        if name is None or not str(name).strip():
            raise CheckpointError(f"config.json: id2label calls output {index} {name!r}: name it")
    others = config.get("label2id")
    for name, index in others.items() if isinstance(others, dict) else ():
        if name in labels and index != labels.index(name):
            raise CheckpointError(
                f"config.json: {name!r} is {index!r} in label2id and {labels.index(name)} in "
                "id2label: one of the two is wrong"
            )
    return tuple(map(str, labels))


_PROBLEMS = {
    "single_label_classification": CLASSIFICATION,
    "multi_label_classification": MULTI_LABEL,
    "regression": REGRESSION,
}


def task_of(config: Config, classifier: Floats) -> str:
    """What the outputs of a classifier mean: problem_type, and without one what transformers does.

    That is a regression of one output, and a class of several.
    """
    count, problem = classifier.shape[0], config.get("problem_type")
    if problem is None:
        return REGRESSION if count == 1 else CLASSIFICATION
    if not isinstance(problem, str) or problem not in _PROBLEMS:
        raise CheckpointError(
            f"config.json: problem_type is {problem!r}: it must be one of {', '.join(_PROBLEMS)}"
        )
    if count == 1 and _PROBLEMS[problem] == CLASSIFICATION:
        raise CheckpointError(
            "classifier has one output, but problem_type in config.json is "
            "single_label_classification, which needs 2: one output is a regression"
        )
    return _PROBLEMS[problem]


def answers_of(config: Config, classifier: Floats) -> dict[str, Any]:
    """The fields `labels` and `task` of the EncoderSpec whose last layer is this classifier."""
    return {"labels": labels_of(config, classifier), "task": task_of(config, classifier)}


def identity(width: int) -> Arrays:
    """The head of an embedding of so many channels, which gives what it reads."""
    return {
        "head.0.weight": np.eye(width, dtype=np.float32),
        "head.0.bias": np.zeros(width, np.float32),
    }

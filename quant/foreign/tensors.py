"""Access to a checkpoint for loaders: tensors by their names, and the fields of its config."""

import re
import sys
from collections.abc import Mapping
from typing import Any

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
FURTHEST_MAX = 10**300
"""Of a bucket's distance, which is divided as a float64."""

_ACTIVATIONS = {theirs: ours for ours, entry in ACTIVATIONS.items() for theirs in entry.names}
_PARTS = (
    (r"\b(q|k|query|key)_?(ln|norm|layernorm)\b", "a norm of Q and K behind their projections "
     "(QK-norm), which has no operation"),
    (r"\b(experts?|router)\b", "experts, of which a router chooses some for each token, where a "
     "layer has one network"),
    (r"\b(crossattention|cross_attn|encoder_attn)\b", "attention to another sequence "
     "(cross-attention), where a layer attends to its own"),
    (r"\b(rel_embeddings|pos_(key|query)_proj|pos_q?_?proj|r_[rw]_bias|distance_embedding|"
     r"linear_pos)\b", "attention between words and distances (disentangled attention), whose "
     "products have no operation"),
    (r"\blora_", "LoRA adapters: fold one into its model (merge_and_unload in peft)"),
    (r"\brelative_(attention_bias|position_bias_table)\b", "a bias of the scores of each layer's "
     "own, where all layers share one"),
    (r"^(model\.)?decoder\.", "a decoder, which reads what it writes"),
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
            raise CheckpointError(f"the tensor {name} is missing")
        return self._left.pop(name)

    def table(self, name: str) -> Floats:
        """A tensor that must be a matrix."""
        table = self.take(name)
        if table.ndim != 2:
            raise CheckpointError(f"{name} has shape {table.shape}: a row for each entry is needed")
        return table

    def linear(self, name: str, *targets: str, joint: str = ".") -> Arrays:
        """A linear layer; with several targets its outputs are split into that many equal parts.

        ``joint`` stands between its name and "weight" or "bias". A bias that is not there is zero.
        """
        weight = self.take(f"{name}{joint}weight")
        there = f"{name}{joint}bias" in self
        shift = self.take(f"{name}{joint}bias") if there else np.zeros(weight.shape[:1], np.float32)
        if weight.ndim != 2 or shift.shape != weight.shape[:1] or len(shift) % len(targets):
            raise CheckpointError(
                f"{name} has shapes {weight.shape} and {shift.shape}: a matrix and a bias of "
                f"as many rows are needed, {len(targets)} equal parts"
            )
        parts = (np.split(weight, len(targets)), np.split(shift, len(targets)))
        arrays: Arrays = {}
        for target, w, b in zip(targets, *parts, strict=True):
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
        """A norm; a beta that is not there is zero, and without ``bias`` none is looked for."""
        old = f"{name}.gamma" in self  # names of checkpoints converted from TensorFlow
        scale, shift = ("gamma", "beta") if old else ("weight", "bias")
        gamma = self.take(f"{name}.{scale}")
        there = bias and f"{name}.{shift}" in self
        beta = self.take(f"{name}.{shift}") if there else np.zeros_like(gamma)
        return {f"{target}.gamma": gamma, f"{target}.beta": beta}

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

    def difference(self) -> str:
        """What has no operation here, by names and shapes of the tensors; "" if they do not say."""
        for part, what in _PARTS:
            if name := next((name for name in self._left if re.search(part, name)), ""):
                return f"the tensor {name} is of {what}"
        if name := next((n for n, x in self._left.items() if x.ndim > 2 and x.size), ""):
            return f"the tensor {name} is of a convolution, where a layer has matrices"
        return ""

    def refuse_rest(self) -> None:
        if self._left:
            name, why = min(self._left), self.difference()
            raise CheckpointError(
                f"the tensor {name} has no place in this encoder "
                f"({len(self._left)} such tensors){why and f': {why}'}"
            )


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


def activation(config: Config, name: str) -> str:
    value = config.get(name)
    if not isinstance(value, str) or value not in _ACTIVATIONS:
        raise CheckpointError(
            f"layer.0.ffn.up: the activation {value!r} is not supported: "
            f"it must be one of {', '.join(_ACTIVATIONS)}"
        )
    return _ACTIVATIONS[value]


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
    wrong += [
        f"it calls output {i} {names[i]!r}"
        for i in outputs
        if i in names and not str(names[i] or "").strip()
    ]
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
    labels = tuple(str(names[i]) for i in outputs)
    others = config.get("label2id")
    for name, index in others.items() if isinstance(others, dict) else ():
        if name in labels and index != labels.index(name):
            raise CheckpointError(
                f"config.json: {name!r} is {index!r} in label2id and {labels.index(name)} in "
                "id2label: one of the two is wrong"
            )
    return labels


_PROBLEMS = {
    "single_label_classification": CLASSIFICATION,
    "multi_label_classification": MULTI_LABEL,
    "regression": REGRESSION,
}


def answers_of(config: Config, classifier: Floats) -> dict[str, Any]:
    """The fields `labels` and `task` of the EncoderSpec whose last layer is this classifier.

    Without a problem_type one output is a regression, as in transformers.
    """
    count, problem = classifier.shape[0], config.get("problem_type")
    task = REGRESSION if count == 1 else CLASSIFICATION
    if problem is not None:
        if not isinstance(problem, str) or problem not in _PROBLEMS:
            raise CheckpointError(
                f"config.json: problem_type is {problem!r}: it must be one of "
                f"{', '.join(_PROBLEMS)}"
            )
        task = _PROBLEMS[problem]
    if count == 1 and task == CLASSIFICATION:
        raise CheckpointError(
            "classifier has one output, but problem_type in config.json is "
            "single_label_classification, which needs 2: one output is a regression"
        )
    return {"labels": labels_of(config, classifier), "task": task}


def identity(width: int) -> Arrays:
    """The head of an embedding of so many channels, which gives what it reads."""
    return {
        "head.0.weight": np.eye(width, dtype=np.float32),
        "head.0.bias": np.zeros(width, np.float32),
    }

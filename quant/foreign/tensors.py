"""Access to a checkpoint for loaders: tensors by their names, and the fields of its config."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quant.foreign.config import check
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
    (r"^(module|_orig_mod|base_model)\.", "a wrapper about the model: save the model in it"),
    (r"\b(q|k|query|key)_?(ln|norm|layernorm)\b", "a norm of Q and K behind their projections"),
    (r"\b(experts?|router)\b", "experts, of which a router chooses some for each token"),
    (r"\b(crossattention|cross_attn|encoder_attn)\b", "attention to another sequence "
     "(cross-attention), where a layer attends to its own"),
    (r"\b(rel_embeddings|pos_(key|query)_proj|pos_q?_?proj|r_[rw]_bias|distance_embedding|"
     r"linear_pos)\b", "attention between words and distances (disentangled attention)"),
    (r"\blora_", "LoRA adapters: fold one into its model (merge_and_unload in peft)"),
    (r"\d\..*\brelative_(attention_bias|position_bias_table)\b", "a bias of the scores of each "
     "layer's own, where all layers share one"),
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

    def there(self, name: str) -> bool:
        """Whether it is a tensor, a layer or a norm."""
        return any(f"{name}{end}" in self._left for end in ("", ".weight", ".gamma", "weight"))

    def place(self, prefix: str, names: str) -> str:
        """The one of several names, parted by "|", that is there; else all of them."""
        found = (f"{prefix}{name}" for name in names.split("|"))
        return next(filter(self.there, found), f"{prefix}{names}")

    def begin(self, prefix: str) -> bool:
        """Whether the names of tensors begin so."""
        return any(name.startswith(prefix) for name in self._left)

    def take(self, name: str) -> Floats:
        """Raises CheckpointError when the checkpoint has no such tensor left."""
        if name not in self._left:
            why = self.difference()
            raise CheckpointError(f"the tensor {name} is missing{why and f': {why}'}")
        return self._left.pop(name)

    def drop(self, *prefixes: str) -> list[str]:
        """Leave out what only training needs; the names."""
        dropped = [name for name in self._left if name.startswith(prefixes)]
        for name in dropped:
            del self._left[name]
        return dropped

    def table(self, name: str) -> Floats:
        """A tensor that must be a matrix."""
        table = self.take(name)
        check(table.ndim == 2, f"the shape of {name}", table.shape, "a row for each entry")
        return table

    def linear(self, name: str, *targets: str, shares: Sequence[int] = ()) -> Arrays:
        """A linear layer; the outputs of one with several targets are split in these shares.

        A name that ends with "_" has no dot before "weight" and "bias". A bias that is not there is
        zero. shares: equal ones by default.
        """
        name, parts = name if name.endswith("_") else f"{name}.", shares or [1] * len(targets)
        weight = self.take(f"{name}weight")
        there = f"{name}bias" in self
        shift = self.take(f"{name}bias") if there else np.zeros(weight.shape[:1], np.float32)
        shapes, right = (weight.shape, shift.shape), weight.ndim == 2
        right = right and shapes[1] == shapes[0][:1] and len(shift) % sum(parts) == 0
        wanted = f"a matrix and a bias of as many rows, in parts as {parts}"
        check(right, f"the shape of {name[:-1]}", shapes, wanted)
        cuts = np.cumsum(parts)[:-1] * (len(shift) // sum(parts))
        arrays: Arrays = {}
        for target, w, b in zip(targets, np.split(weight, cuts), np.split(shift, cuts)):
            arrays |= {f"{target}.weight": w, f"{target}.bias": b}
        return arrays

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
        check(buckets >= 4, "relative_attention_num_buckets", buckets, "4 or more")
        far = f"more than a fourth of the {buckets} buckets, up to {FURTHEST_MAX:.0e}"
        right = buckets // 4 < furthest <= FURTHEST_MAX
        check(right, "relative_attention_max_distance", furthest, far)
        table = self.table(name)
        check(len(table) == buckets, f"the number of rows of {name}", len(table), f"{buckets}")
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
    value: Any = config.get(name)
    check(type(value) is int, name, value, "an integer")
    return value


def number(config: Config, name: str, default: float | None = None) -> float:
    """A field that must be there where no default is given."""
    value: Any = config.get(name, default)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    check(numeric and abs(value) <= sys.float_info.max, name, value, "a finite number")
    return float(value)


def boolean(config: Config, name: str, default: bool | None = None) -> bool:
    value: Any = config.get(name, default)
    check(isinstance(value, bool), name, value, "true or false")
    return value


def head_size(hidden: int, heads: int) -> int:
    right = heads >= 1 and hidden % heads == 0
    check(right, "the number of heads", heads, f"a divisor of the hidden size, {hidden}")
    return hidden // heads


def activation(config: Config, name: str) -> str:
    value = config.get(name)
    known = isinstance(value, str) and value in _ACTIVATIONS
    check(known, name, value, f"one of {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[str(value)]


def labels_of(config: Config, classifier: Floats) -> tuple[str, ...]:
    """Names from id2label; a config that leaves out the default two still has LABEL_0, LABEL_1."""
    outputs = [str(i) for i in range(len(classifier))]
    names = config.get("id2label") or {i: f"LABEL_{i}" for i in outputs}
    check(isinstance(names, dict), "id2label", names, 'as in {"0": "negative", "1": "positive"}')
    wrong = {i for i in names if not str(names[i] or "").strip()} | (set(names) ^ set(outputs))
    every = f"a name for each of the {len(outputs)} outputs of classifier and no other"
    check(not wrong, "id2label", {i: names.get(i) for i in sorted(wrong)[:3]}, every)
    count = config.get("num_labels")
    check(count in (None, len(outputs)), "num_labels", count, f"{len(outputs)}, or left out")
    labels, others = tuple(str(names[i]) for i in outputs), config.get("label2id")
    for i, name in enumerate(labels):
        other = others.get(name, i) if isinstance(others, dict) else i
        check(other == i, f"{name!r} in label2id", other, f"{i}, as in id2label")
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
    count, problem = len(classifier), config.get("problem_type")
    check(
        problem is None or problem in list(_PROBLEMS),
        "problem_type",
        problem,
        f"one of {', '.join(_PROBLEMS)}",
    )
    task = _PROBLEMS[str(problem)] if problem else REGRESSION if count == 1 else CLASSIFICATION
    one = count == 1 and task == CLASSIFICATION
    check(not one, "problem_type", problem, "regression, since classifier has one output")
    return {"labels": labels_of(config, classifier), "task": task}


def identity(width: int) -> Arrays:
    """The head of an embedding of so many channels, which gives what it reads."""
    bias = np.zeros(width, np.float32)
    return {"head.0.weight": np.eye(width, dtype=np.float32), "head.0.bias": bias}

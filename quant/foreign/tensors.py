"""Access to a checkpoint for loaders: tensors by their names, and the fields of its config."""

import re
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from quant.foreign.config import check
from quant.model import spec
from quant.model.activation import NAMES
from quant.model.spec import Arrays, CheckpointError, Floats

Config = Mapping[str, Any]
LARGEST = 1 << 24
"""Of an integer: an accelerator has as many rows of tokens at most."""

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
_PROBLEMS = {
    "single_label_classification": spec.CLASSIFICATION,
    "multi_label_classification": spec.MULTI_LABEL,
    "regression": spec.REGRESSION,
}


class Tensors(dict[str, Floats]):
    """The tensors of a checkpoint that were not taken yet; each is taken once."""

    def there(self, name: str) -> bool:
        """Whether it is a tensor, a layer or a norm."""
        return any(f"{name}{end}" in self for end in ("", ".weight", ".gamma", "weight"))

    def place(self, prefix: str, names: str) -> str:
        """The one of several names, parted by "|", that is there; else all of them."""
        found = (f"{prefix}{name}" for name in names.split("|"))
        return next(filter(self.there, found), f"{prefix}{names}")

    def begin(self, prefix: str) -> bool:
        """Whether the names of tensors begin so."""
        return any(name.startswith(prefix) for name in self)

    def take(self, name: str) -> Floats:
        """Raises CheckpointError when the checkpoint has no such tensor left."""
        if name not in self:
            raise CheckpointError(f"the tensor {name} is missing{self.difference()}")
        return self.pop(name)

    def drop(self, *prefixes: str) -> list[str]:
        """Leave out what only training needs; the names."""
        dropped = [name for name in self if name.startswith(prefixes)]
        for name in dropped:
            del self[name]
        return dropped

    def linear(self, name: str, *targets: str, times: int = 1) -> Arrays:
        """A linear layer; the outputs of one with several targets are split, `times` as many to q.

        A name that ends with "_" has no dot before "weight" and "bias". A bias that is not there is
        zero.
        """
        name = name if name.endswith("_") else f"{name}."
        weight = self.take(f"{name}weight")
        there = f"{name}bias" in self
        shift = self.take(f"{name}bias") if there else np.zeros(weight.shape[:1], np.float32)
        right = weight.ndim == 2 and shift.shape == weight.shape[:1]
        shapes = weight.shape, shift.shape
        check(right, f"the shape of {name[:-1]}", shapes, "a matrix and a bias of as many rows")
        parts = [times if target == "q" else 1 for target in targets]
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

    def difference(self) -> str:
        """Behind a sentence, which of the tensors has no operation here; "" if none says so."""
        found = [(name, what) for part, what in _PARTS for name in self if re.search(part, name)]
        what = "a convolution, where a layer has matrices"
        found += [(name, what) for name, x in self.items() if x.ndim > 2 and x.size]
        return f": the tensor {found[0][0]} is of {found[0][1]}" if found else ""


def integer(config: Config, name: str) -> int:
    value: Any = config.get(name)
    right = type(value) is int and abs(value) <= LARGEST
    check(right, name, value, f"an integer, at most {LARGEST:,}")
    return value


def number(config: Config, name: str, default: float | None = None) -> float:
    value: Any = config.get(name, default)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    check(numeric and abs(value) <= sys.float_info.max, name, value, "a finite number")
    return float(value)


def boolean(config: Config, name: str, default: bool | None = None) -> bool:
    value: Any = config.get(name, default)
    check(isinstance(value, bool), name, value, "true or false")
    return value


def activation(config: Config, name: str) -> str:
    value: Any = config.get(name)
    check(value in list(NAMES), name, value, f"one of {', '.join(NAMES)}")
    return NAMES[value]


def labels_of(config: Config, count: int) -> tuple[str, ...]:
    """Names from id2label; a config that leaves out the default two still has LABEL_0, LABEL_1."""
    outputs = [str(i) for i in range(count)]
    names = config.get("id2label") or {i: f"LABEL_{i}" for i in outputs}
    check(isinstance(names, dict), "id2label", names, 'as in {"0": "negative", "1": "positive"}')
    wrong = {i for i in names if not str(names[i] or "").strip()} | (set(names) ^ set(outputs))
    every = f"a name for each of the {count} outputs of classifier and no other"
    check(not wrong, "id2label", {i: names.get(i) for i in sorted(wrong)[:3]}, every)
    said, others = config.get("num_labels"), config.get("label2id")
    check(said in (None, count), "num_labels", said, f"{count}, or left out")
    labels = tuple(str(names[i]) for i in outputs)
    for i, name in enumerate(labels):
        other = others.get(name, i) if isinstance(others, dict) else i
        check(other == i, f"{name!r} in label2id", other, f"{i}, as in id2label")
    return labels


def answers_of(config: Config, count: int) -> dict[str, Any]:
    """The fields `labels` and `task` of the EncoderSpec with so many outputs.

    Without a problem_type one output is a regression, as in transformers.
    """
    problem = config.get("problem_type")
    known = problem is None or problem in list(_PROBLEMS)
    check(known, "problem_type", problem, f"one of {', '.join(_PROBLEMS)}")
    alone = spec.REGRESSION if count == 1 else spec.CLASSIFICATION
    task = _PROBLEMS[str(problem)] if problem else alone
    return {"labels": labels_of(config, count), "task": task}

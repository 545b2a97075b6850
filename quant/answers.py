"""What the outputs of a model say of one text, by what the model is for, as the commands show it.

classification: the label of the largest logit, and softmax(logits). Several labels at once: those
whose logit is above 0, and sigmoid(logit) of each; since a scale is positive, the integers alone
decide. Regression: the outputs in the units of the float model. An embedding has none of it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant.data_file import Review
from quant.float_model import softmax
from quant.spec import CLASSIFICATION, MULTI_LABEL, REGRESSION, EncoderSpec

Numbers = NDArray[np.floating[Any]]

_KIND = {CLASSIFICATION: "class", MULTI_LABEL: "label", REGRESSION: "output"}
"""What one output of each task is called."""


def sigmoid(x: Numbers) -> Numbers:
    """1 / (1 + exp(-x)), of which no exponential overflows."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def held(logits: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of several labels hold, of integers or floats: those above 0."""
    return np.asarray(logits) > 0


def answer(
    spec: EncoderSpec, logits: Numbers, codes: NDArray[np.integer[Any]] | None = None
) -> dict[str, Any]:
    """The outputs [C] of one text, in the units of the float model, as plain JSON values.

    codes: the integers of which the logits are multiples; where they are given, they decide.
    {"class", "logits", "probabilities"} of a class; {"labels", "logits", "probabilities"} of
    several; {"values"} of a regression; all but the label or labels by the names of the outputs.
    """
    names = spec.labels
    deciding: NDArray[Any] = logits if codes is None else codes
    outputs = dict(zip(names, map(float, logits), strict=True))
    if spec.task == REGRESSION:
        return {"values": outputs}
    found: dict[str, Any]
    if spec.task == MULTI_LABEL:
        shares = sigmoid(logits)
        found = {"labels": [name for name, holds in zip(names, held(deciding)) if holds]}
    else:
        shares = softmax(logits)
        found = {"class": names[int(deciding.argmax())]}
    return found | {"logits": outputs, "probabilities": dict(zip(names, map(float, shares)))}


def said(values: dict[str, Any]) -> str:
    """An answer in a few words."""
    if "class" in values:
        return str(values["class"])
    if "labels" in values:
        return ", ".join(values["labels"]) or "no label"
    return ", ".join(f"{name} {value:.4f}" for name, value in values["values"].items())


def table(
    spec: EncoderSpec, values: dict[str, Any], floats: dict[str, Any] | None = None
) -> list[str]:
    """Lines of an answer with its "integer_logits", an output each; the float model's beside it."""
    kind = _KIND[spec.task]
    width = max(len(kind), 5, *map(len, spec.labels))
    titles = ["value"] if spec.task == REGRESSION else ["logit", "probability"]
    cells = [[name, str(values["integer_logits"][name])] for name in spec.labels]
    for column, one in enumerate((values, floats)):
        for line in cells if one else ():
            line += _figures(spec, one or {}, line[0])
        titles += [f"float {titles[0]}", *titles[1:]] if floats and not column else []
    lines = [[kind, "integer logit", *titles], *cells]
    widths = (9, 12, 12, 12)
    return [
        f"{name:{width}}{logit:>14}" + "".join(f" {cell:>{w}}" for cell, w in zip(rest, widths))
        for name, logit, *rest in lines
    ]


def _figures(spec: EncoderSpec, values: dict[str, Any], name: str) -> list[str]:
    """Of one output: logit and probability, or the number."""
    if spec.task == REGRESSION:
        return [f"{values['values'][name]:.4f}"]
    return [f"{values['logits'][name]:.4f}", f"{values['probabilities'][name]:.2%}"]


def right_of(spec: EncoderSpec, review: Review) -> Any:
    """What the file says of a text, as `answer` says it: a class, labels, or numbers by name."""
    if spec.task == CLASSIFICATION:
        return None if review.label is None else spec.labels[review.label]
    if review.targets is None:
        return None
    named = zip(spec.labels, review.targets)
    if spec.task == REGRESSION:
        return dict(named)
    return [name for name, holds in named if holds]

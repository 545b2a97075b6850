"""What the outputs of a model say of one text, by what the model is for, as the commands show it.

classification: the label of the largest logit, and softmax(logits). Several labels at once: those
whose logit is above 0, and sigmoid(logit) of each; since a scale is positive, the integers alone
decide. Regression: the outputs in the units of the float model. An embedding has none of it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant.float_model import softmax
from quant.spec import CLASSIFICATION, MULTI_LABEL, REGRESSION, EncoderSpec

Numbers = NDArray[np.floating[Any]]

KIND = {CLASSIFICATION: "class", MULTI_LABEL: "label", REGRESSION: "output"}
"""What one output of each task is called."""


def sigmoid(x: Numbers) -> Numbers:
    """1 / (1 + exp(-x)), of which no exponential overflows."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def held(logits: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of several labels hold, of integers or floats: those above 0."""
    return np.asarray(logits) > 0


def answer(spec: EncoderSpec, logits: Numbers) -> dict[str, Any]:
    """The outputs [C] of one text, in the units of the float model, as plain JSON values.

    {"class", "logits", "probabilities"} of a class; {"labels", "logits", "probabilities"} of
    several; {"values"} of a regression; all but the label or labels by the names of the outputs.
    """
    names = spec.labels
    outputs = dict(zip(names, map(float, logits), strict=True))
    if spec.task == REGRESSION:
        return {"values": outputs}
    found: dict[str, Any]
    if spec.task == MULTI_LABEL:
        shares = sigmoid(logits)
        found = {"labels": [name for name, holds in zip(names, held(logits)) if holds]}
    else:
        shares = softmax(logits)
        found = {"class": names[int(logits.argmax())]}
    return found | {"logits": outputs, "probabilities": dict(zip(names, map(float, shares)))}


def said(values: dict[str, Any]) -> str:
    """An answer in a few words."""
    if "class" in values:
        return str(values["class"])
    if "labels" in values:
        return ", ".join(values["labels"]) or "no label"
    return ", ".join(f"{name} {value:.4f}" for name, value in values["values"].items())


def figures(spec: EncoderSpec, values: dict[str, Any], name: str) -> list[str]:
    """What a table shows of one output: logit and probability, or the number."""
    if spec.task == REGRESSION:
        return [f"{values['values'][name]:.4f}"]
    return [f"{values['logits'][name]:.4f}", f"{values['probabilities'][name]:.2%}"]


def headings(spec: EncoderSpec) -> list[str]:
    """The names of what `figures` gives."""
    return ["value"] if spec.task == REGRESSION else ["logit", "probability"]

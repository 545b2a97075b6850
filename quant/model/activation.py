"""The activations: the one list. A function here is all that a new one needs.

In hardware every activation is a table of 256 entries, so nothing else knows their names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from scipy.special import erf


def gelu(x: Any) -> Any:
    """x Phi(x), with the exact normal distribution (Hendrycks and Gimpel, 2016)."""
    return 0.5 * x * (1 + erf(x / sqrt(2)))


def gelu_tanh(x: Any) -> Any:
    """The tanh approximation of GELU, equation 2 of the same paper."""
    return 0.5 * x * (1 + np.tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def relu(x: Any) -> Any:
    """max(x, 0)."""
    return np.maximum(x, 0)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), by a tanh that does not overflow."""
    return 0.5 * (1 + np.tanh(0.5 * np.asarray(x)))


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return np.logaddexp(0, x)


def laplace(x: Any) -> Any:
    """The distribution function of MEGA (Ma et al., 2023), with its mean and deviation."""
    return 0.5 * (1 + erf((x - 0.707107) / (0.282095 * sqrt(2))))


@dataclass(frozen=True)
class Activation:
    """A function of one real number.

    Attributes
    ----------
    function
        Of an array of float64, element by element.
    names
        How the configs of checkpoints call it (`hidden_act`).
    """

    function: Callable[[Any], Any]
    names: tuple[str, ...] = ()


ACTIVATIONS: dict[str, Activation] = {
    "gelu": Activation(gelu, ("gelu", "gelu_python")),
    "gelu-10": Activation(lambda x: np.clip(gelu(x), -10, 10), ("gelu_10",)),
    "gelu-quick": Activation(lambda x: x * sigmoid(1.702 * x), ("quick_gelu",)),
    "gelu-tanh": Activation(
        gelu_tanh,
        ("gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast", "gelu_accurate"),
    ),
    "hardswish": Activation(lambda x: x * np.clip(x + 3, 0, 6) / 6, ("hardswish",)),
    "laplace": Activation(laplace, ("laplace",)),
    "leaky-relu": Activation(lambda x: np.maximum(x, 0.01 * x), ("leaky_relu",)),
    "linear": Activation(lambda x: 1.0 * x, ("linear",)),
    "mish": Activation(lambda x: x * np.tanh(softplus(x)), ("mish",)),
    "relu": Activation(relu, ("relu",)),
    "relu-6": Activation(lambda x: np.clip(x, 0, 6), ("relu6",)),
    "relu-squared": Activation(lambda x: relu(x) ** 2, ("relu2",)),
    "sigmoid": Activation(sigmoid, ("sigmoid",)),
    "silu": Activation(lambda x: x * sigmoid(x), ("silu", "swish")),
    "sqrt-softplus": Activation(lambda x: np.sqrt(softplus(x)), ("sqrtsoftplus",)),
    "tanh": Activation(np.tanh, ("tanh",)),
}
"""By name. Those of `transformers` that have weights of their own (prelu, xielu) are not here."""

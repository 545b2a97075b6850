"""The activations: the one list. A function here is all that a new one needs.

In hardware every activation is a table of 256 entries, so nothing else knows their names.
"""

from collections.abc import Callable
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


_TABLE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "gelu": (gelu, "gelu gelu_python"),
    "gelu-10": (lambda x: np.clip(gelu(x), -10, 10), "gelu_10"),
    "gelu-quick": (lambda x: x * sigmoid(1.702 * x), "quick_gelu"),
    "gelu-tanh": (gelu_tanh, "gelu_new gelu_pytorch_tanh gelu_python_tanh gelu_fast gelu_accurate"),
    "hardswish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, "hardswish"),
    # The distribution function of MEGA (Ma et al., 2023), with its mean and deviation.
    "laplace": (lambda x: 0.5 * (1 + erf((x - 0.707107) / (0.282095 * sqrt(2)))), "laplace"),
    "leaky-relu": (lambda x: np.maximum(x, 0.01 * x), "leaky_relu"),
    "linear": (lambda x: 1.0 * x, "linear"),
    "mish": (lambda x: x * np.tanh(softplus(x)), "mish"),
    "relu": (relu, "relu"),
    "relu-6": (lambda x: np.clip(x, 0, 6), "relu6"),
    "relu-squared": (lambda x: relu(x) ** 2, "relu2"),
    "sigmoid": (sigmoid, "sigmoid"),
    "silu": (lambda x: x * sigmoid(x), "silu swish"),
    "sqrt-softplus": (lambda x: np.sqrt(softplus(x)), "sqrtsoftplus"),
    "tanh": (np.tanh, "tanh"),
}
ACTIVATIONS = {name: function for name, (function, _) in _TABLE.items()}
"""Functions of an array of float64, element by element, by name.

Those of `transformers` that have weights of their own (prelu, xielu) are not here.
"""
NAMES = {theirs: ours for ours, (_, names) in _TABLE.items() for theirs in names.split()}
"""Our names by those of the configs of checkpoints (`hidden_act`)."""

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
    "gelu": Activation(gelu, ("gelu",)),
    "gelu-tanh": Activation(gelu_tanh, ("gelu_new", "gelu_pytorch_tanh", "gelu_fast")),
    "relu": Activation(relu, ("relu",)),
    "tanh": Activation(np.tanh),  # of heads; no checkpoint asks for it in the feed-forward
}

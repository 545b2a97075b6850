"""The values of a tensor's codes, by its entry in the description.

    real = scale * codes + centre                                     centre 0 where none is named
    real[:, copies[i]] += real[:, F + i]                              neurons with copies
    real = factors * real + centres                                   rewritten channels

``factors`` include the power of two of an operand x8 whose channels have their own shift.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant.model.spec import Floats
from quant.quantize.splitting import folded

Doubles = NDArray[np.floating[Any]]


def real(codes: NDArray[np.integer[Any]], format: Mapping[str, Any], channels: int) -> Doubles:
    """The values [..., channels] of a tensor of the trace; channels as the float model has them."""
    values: Doubles = codes * np.float64(format["scale"]) + float(format.get("centre", 0.0))
    if values.shape[-1] > channels:
        values = folded(values, channels, np.array(format["copies"], np.int64))
    if "factors" in format:
        values = values * np.array(format["factors"]) + np.array(format["centres"])
    return values


def twins(
    codes: NDArray[np.integer[Any]], format: Mapping[str, Any], exact: Floats
) -> tuple[Doubles, Floats]:
    """The values of the codes, and the float model's tensor to compare them with.

    Scores with a position bias, or beyond 16 bits, end ``depth`` below the largest of their row:
    what is further down has p = 0 in both. Scores that differ from the float model's by a constant
    a row are both given without it.
    """
    values = real(codes, format, exact.shape[-1])
    if depth := format.get("depth"):
        values, exact = (np.maximum(x, x.max(-1, keepdims=True) - depth) for x in (values, exact))
    if format.get("row_constant"):
        values = values - values.mean(axis=-1, keepdims=True)
        exact = exact - exact.mean(axis=-1, keepdims=True)
    return values, exact


def scale(format: Mapping[str, Any]) -> Doubles:
    """The step of a tensor's codes, or of each channel where they have steps of their own."""
    return np.float64(format["scale"]) * np.array(format.get("factors", 1.0))


def lsb(format: Mapping[str, Any]) -> float:
    """The step of a tensor's codes; of channels with steps of their own the root mean square."""
    factors = np.array(format.get("factors", 1.0))
    return float(format["scale"]) * float(np.sqrt(np.mean(np.square(factors))))

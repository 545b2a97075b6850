"""Linear layers: a matrix product, a bias, and one of three endings."""

import numpy as np

from golden.activation import lookup
from golden.matmul import matmul
from golden.model import Linear
from golden.requantize import requantize, round_shift, saturate


def accumulate(x8: np.ndarray, layer: Linear) -> np.ndarray:
    """acc[t, o] = sum_k x8[t, k] * weight[o, k] + bias[o], int32 [..., out]; the logits' ending."""
    return matmul(x8, layer.weight.T) + layer.bias


def linear(x8: np.ndarray, layer: Linear) -> np.ndarray:
    """table[requantize(acc, m, s, 8)], int8 [..., out]; without a table the code itself."""
    y = requantize(accumulate(x8, layer), *_multiplier(layer))
    return y if layer.table is None else lookup(layer.table, y)


def residual(x16: np.ndarray, x8: np.ndarray, layer: Linear, shift: int) -> np.ndarray:
    """z = saturate(round_shift(x16, shift) + requantize(acc, m, s, 16), 16), int16 [..., out]."""
    branch = requantize(accumulate(x8, layer), *_multiplier(layer), bits=16)
    return saturate(round_shift(x16, shift) + branch, 16).astype(np.int16)


def operand(x16: np.ndarray, shifts: np.ndarray | None = None) -> np.ndarray:
    """x8[c] = saturate(round_shift(x16[c], shifts[c]), 8), the int8 operand made of an int16.

    shifts: integers [H], 1..8; None is 8 in every channel.
    """
    return saturate(round_shift(x16, 8 if shifts is None else shifts), 8).astype(np.int8)


def _multiplier(layer: Linear) -> tuple[np.ndarray, np.ndarray]:
    if layer.m is None or layer.s is None:
        raise ValueError("linear: the layer has no m and s; allowed only for the logits")
    return layer.m, layer.s

"""Linear layers: a matrix product, a bias, and one of three endings."""

from functools import cache

import numpy as np

from golden.activation import lookup
from golden.errors import UserError
from golden.matmul import matmul
from golden.model import Linear
from golden.requantize import requantize, round_shift, saturate

LOW_BITS = 8  # of a wide operand
WIDE_MAX = 127 * (1 << LOW_BITS) + 127  # both halves are int8


def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A wide operand int16 [...], x <= WIDE_MAX, as int8 (high, low): x = 2^8 * high + low."""
    high = round_shift(x, LOW_BITS)
    return high.astype(np.int8), (x - (high << LOW_BITS)).astype(np.int8)


def high_half(x: np.ndarray) -> np.ndarray:
    """The int8 of an operand that is read by eight bits: the high half where it is wide."""
    return halves(x)[0] if x.dtype == np.int16 else x


def accumulate(x: np.ndarray, layer: Linear) -> np.ndarray:
    """acc[t, o] = sum_k x[t, k] * weight[o, k] + bias[o], int32 [..., out]; the logits' ending.

    A wide operand, int16, takes two passes:
    acc = (sum_k low[t, k] * weight[o, k] >> 8) + sum_k high[t, k] * weight[o, k] + bias[o].
    """
    if x.dtype != np.int16:
        return matmul(x, layer.weight.T) + layer.bias
    high, low = halves(x)
    of_low = matmul(low, layer.weight.T) >> LOW_BITS
    return of_low + matmul(high, layer.weight.T) + layer.bias


def linear(x: np.ndarray, layer: Linear) -> np.ndarray:
    """table[requantize(acc, m, s, 8)], int8 [..., out]; without a table the code itself.

    With a low table, too, the wide operand 2^8 * table[code] + table_low[code], int16.
    """
    y = requantize(accumulate(x, layer), *_multiplier(layer))
    if layer.table is None:
        return y
    high = lookup(layer.table, y)
    if layer.table_low is None:
        return high
    return (high.astype(np.int16) << LOW_BITS) + lookup(layer.table_low, y)


def linear16(x: np.ndarray, layer: Linear) -> np.ndarray:
    """requantize(acc, m, s, 16), int16 [..., out]: q and k before they are turned, up of a gate."""
    return requantize(accumulate(x, layer), *_multiplier(layer), bits=16)


def gated(gate: np.ndarray, up: np.ndarray, shift: int) -> np.ndarray:
    """saturate(round_shift(gate * up, shift), 8), int8 [..., out].

    gate int8 or wide, up int16. Of a wide gate the wide operand
    min(saturate(round_shift(gate * up, shift), 16), WIDE_MAX), int16.
    """
    product = round_shift(gate.astype(np.int64) * up, shift)
    if gate.dtype == np.int16:
        return wide_operand(saturate(product, 16))
    return saturate(product, 8).astype(np.int8)


def residual(x16: np.ndarray, x: np.ndarray, layer: Linear, shift: int) -> np.ndarray:
    """z = saturate(round_shift(x16, shift) + requantize(acc, m, s, 16), 16), int16 [..., out]."""
    return saturate(round_shift(x16, shift) + linear16(x, layer), 16).astype(np.int16)


@cache
def in_stream(hidden: int) -> Linear:
    """y = 128 x of `hidden` channels, int16: codes in the residual stream before a norm."""
    return Linear(
        weight=np.eye(hidden, dtype=np.int8),
        bias=np.zeros(hidden, np.int32),
        m=np.full(hidden, 1 << 15, np.int32),
        s=np.full(hidden, 8, np.int32),
    )


def operand(x16: np.ndarray, shifts: np.ndarray | None = None) -> np.ndarray:
    """x8[c] = saturate(round_shift(x16[c], shifts[c]), 8), the int8 operand made of an int16.

    shifts: integers [H], 1..8; None is 8 in every channel.
    """
    return saturate(round_shift(x16, 8 if shifts is None else shifts), 8).astype(np.int8)


def wide_operand(x16: np.ndarray) -> np.ndarray:
    """x = min(x16, WIDE_MAX), int16: the operand of two passes, see `accumulate`."""
    return np.minimum(x16, WIDE_MAX).astype(np.int16)


def _multiplier(layer: Linear) -> tuple[np.ndarray, np.ndarray]:
    if layer.m is None or layer.s is None:
        raise UserError("linear: the layer has no m and s; allowed only for the logits")
    return layer.m, layer.s

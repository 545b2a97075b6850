"""Exact integer matrix products by floating-point BLAS.

A float32 holds every integer up to 2^24 in magnitude. Where the sum of |a_k * b_k| over all k is at
most 2^24, so is every partial sum in whatever order, blocking or fused multiply-add a BLAS uses:
each product and each addition is exact, and the float32 result is the integer. float64 does the
same up to 2^53.
"""

from dataclasses import dataclass

import numpy as np

from golden.errors import UserError

FLOAT32_EXACT = 1 << 24
CODE = 128  # magnitude of an int8 activation
P_MAX = 255  # magnitude of a weight p of the softmax


def sum_type(bound: int) -> type[np.floating]:
    """The narrowest float type in which sums of magnitude `bound` are exact."""
    if bound <= FLOAT32_EXACT:
        return np.float32
    if bound <= 1 << 53:
        return np.float64
    raise UserError(f"a sum of magnitude {bound} is not exact in float64; allowed 0..2^53")


@dataclass(frozen=True, eq=False)
class ExactWeight:
    """A weight matrix in parts along K whose products with int8 codes are exact in float32.

    parts holds (first, last, float32 [last - first, out]). Every part keeps
    128 * sum |weight| <= 2^24 for each output channel; one part is enough while K <= 1,032, and
    far beyond with trained weights, whose mean magnitude is a fraction of 127.
    """

    parts: tuple[tuple[int, int, np.ndarray], ...]

    @property
    def out(self) -> int:
        return self.parts[0][2].shape[1]


def exact_weight(weight: np.ndarray) -> ExactWeight:
    """weight int8 [out, K], cut greedily into as few parts as the bound allows."""
    total = np.cumsum(np.abs(weight.astype(np.int64)) * CODE, axis=1)
    width, first, parts = weight.shape[1], 0, []
    while first < width:
        before = total[:, first - 1 : first] if first else np.zeros((len(total), 1), np.int64)
        fits = ((total[:, first:] - before) <= FLOAT32_EXACT).all(axis=0)
        last = width if fits.all() else first + int(np.argmin(fits))
        part = np.ascontiguousarray(weight[:, first:last].T, dtype=np.float32)
        parts.append((first, last, part))
        first = last
    return ExactWeight(tuple(parts))


class FloatProducts:
    """Products by BLAS.

    Attributes
    ----------
    operand, zero
        Type of the arrays that hold codes, and what stands for the code 0 there.
    sums
        Type of the array that `multiply` is given for its result.
    """

    operand = np.float32
    zero = 0
    sums = np.float32

    def prepare(self, weight: np.ndarray) -> ExactWeight:
        """weight int8 [out, K]."""
        return exact_weight(weight)

    def multiply(self, x: np.ndarray, weight: ExactWeight, acc: np.ndarray) -> np.ndarray:
        """The function of this name."""
        return multiply(x, weight, acc)


def multiply(x: np.ndarray, weight: ExactWeight, acc: np.ndarray) -> np.ndarray:
    """x [rows, K] codes in float32; the products in acc (float32 [rows, out]) or in float64.

    With one part the result is acc; with more it is the float64 sum of the parts' products.
    """
    first, last, part = weight.parts[0]
    np.matmul(x[:, first:last], part, out=acc)
    if len(weight.parts) == 1:
        return acc
    total = acc.astype(np.float64)
    for first, last, part in weight.parts[1:]:
        total += np.matmul(x[:, first:last], part, out=acc)
    return total

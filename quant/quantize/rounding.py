"""Weights rounded together, so that their errors cancel in the layer's output.

To nearest, each weight's error is as small as can be; what counts is that of the output. Of a layer
with the weights W and the codes' W', D = W - W', and the second moments H of its operand x, it is

    E |D x|^2 = tr(D H D^T) = |D L|^2,   H = L L^T

where column j of D L is L[j, j] times

    D[:, j] + sum_{i > j} D[:, i] L[i, j] / L[j, j]

From the last column to the first, each is rounded to the codes that make this least, those of the
columns behind it given. (Frantar et al., "GPTQ: accurate post-training quantization for generative
pre-trained transformers", 2022, which comes to the same codes through the inverse of H, spreading
each column's error over those to come.) Columns are sorted by their moments: the largest go first,
while there are others to make up for their errors.

The layer's bias takes up the mean error D E[x] (quant.quantize.quantizers.linear). What is left is
E |D (x - E[x])|^2, so that H is the covariance then.

x is what the integer model with weights rounded to nearest reads: int8 codes. Their sums and
products are integers below 2^53, exact in any order. L and the sums over columns are not, in the
last of 53 bits, so that two machines would round a weight differently where it lies within some
10^-12 of the middle between two codes: one weight of 10^11 or so.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky

from golden.fast import Engine, products
from golden.fast.products import CODE, FLOAT32_EXACT
from golden.model import Model
from quant.foreign.tokenizer import Tokens, together
from quant.quantize.quantizers import Doubles, ToCodes, nearest_codes

DAMPING = 0.01  # of the mean channel's moment, for directions that calibration saw little of
BLOCK = FLOAT32_EXACT // CODE**2  # rows whose products float32 adds exactly
INT32_ROWS = (2**31 - 1) // CODE**2  # rows whose products an int32 holds
STRIP = 256  # channels
COLUMNS = 64  # rounded between two products of matrices
TOKENS = 2048  # that are watched together


class Moments:
    """The sums of an int8 operand's rows, and of their outer products.

    Of the products, which are the same either way round, there are strips of STRIP channels: of
    these with themselves and all behind them.
    """

    def __init__(self) -> None:
        self.rows, self.sums = 0, np.zeros(0)
        self._strips: list[NDArray[np.signedinteger[Any]]] = []

    def add(self, x: NDArray[np.float32]) -> None:
        """Add the rows of x [n, K], integers from -128 to 127."""
        if not self.rows:
            self.sums, left = np.zeros(x.shape[1]), range(x.shape[1], 0, -STRIP)
            self._strips = [np.zeros((min(STRIP, size), size), np.int32) for size in left]
        self.rows += len(x)
        if self.rows > INT32_ROWS:
            self._strips = [strip.astype(np.int64, copy=False) for strip in self._strips]
        self.sums += x.sum(axis=0, dtype=np.float64)
        for first in range(0, len(x), BLOCK):
            for i, strip in enumerate(self._strips):
                behind = x[first : first + BLOCK, i * STRIP :]
                strip += (behind[:, :STRIP].T @ behind).astype(np.int32)

    def matrix(self) -> Doubles:
        """n^2 times the covariance of the n rows, n^2 E[x x^T] - (n E[x]) (n E[x])^T [K, K]."""
        n, sums = self.rows, self.sums
        result = np.empty((len(sums), len(sums)))
        for i, strip in enumerate(self._strips):
            first, last = i * STRIP, i * STRIP + len(strip)
            products = n * strip.astype(np.float64) - np.outer(sums[first:last], sums[first:])
            result[first:last, first:] = products
            result[first:, first:last] = products.T
        return result


def watch(
    model: Model, texts: Sequence[Tokens], advance: Callable[[int], object] = lambda _: None
) -> Mapping[str, Moments]:
    """The moments of every linear layer's operand by its name; ``advance`` hears of the tokens.

    Of a factorised embedding those of the channels that are read.
    """
    found: defaultdict[str, Moments] = defaultdict(Moments)
    engine = Engine(model, products.load())

    def add(name: str, x: NDArray[np.float32]) -> None:
        found[name].add(x[:, : model.inputs(0)] if name == "embedding.x8" else x)

    for some in together(sorted(texts, key=lambda text: len(text.ids)), TOKENS):
        engine.watch_batch(add, [text.ids for text in some], [text.types for text in some])
        advance(sum(len(text.ids) for text in some))
    return found


def joint_codes(weight: Doubles, moments: Doubles) -> Doubles:
    """Codes -127..127 of weights [out, K] in units of their scales, rounded as said above.

    moments [K, K]: H, times any factor. Without any, as of a constant operand, to nearest.
    """
    damping = DAMPING * np.diag(moments).mean() or 1.0
    order = np.argsort(np.diag(moments), kind="stable")
    factor: NDArray[np.floating[Any]] = moments[np.ix_(order, order)]
    del moments  # a wide layer's takes as much memory as its float weights
    factor[np.diag_indices_from(factor)] += damping
    factor = cholesky(factor.T, overwrite_a=True, check_finite=False).T  # L, in place
    factor /= np.diag(factor)
    wanted = np.ascontiguousarray(weight[:, order].T)  # [K, out], and so are the next three
    columns, codes, errors = wanted.copy(), np.empty_like(wanted), np.empty_like(wanted)
    for last in range(len(order), 0, -COLUMNS):
        block = slice(max(last - COLUMNS, 0), last)
        columns[block] += factor[last:, block].T @ errors[last:]
        for j in reversed(range(len(order))[block]):
            columns[j] += factor[j + 1 : last, j] @ errors[j + 1 : last]
            codes[j] = nearest_codes(columns[j])
            errors[j] = wanted[j] - codes[j]
    result = np.empty_like(weight)
    result[:, order] = codes.T
    return result


def to_codes(moments: Moments | None) -> ToCodes:
    """How a layer's weights become codes: to nearest where fewer rows than channels were seen.

    So few say nothing of some combinations of channels, whose errors would grow.
    """
    if moments is None or moments.rows < len(moments.sums):
        return nearest_codes
    return lambda weight: joint_codes(weight, moments.matrix())

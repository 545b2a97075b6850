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
from collections.abc import Mapping, Sequence
from functools import partial

from cli.progress import progress

import numpy as np
from numpy.typing import NDArray

from golden.fast.exact import CODE, FLOAT32_EXACT
from golden.fast.watching import WatchedEngine
from golden.model import Model
from quant.foreign.tokenizer import Tokens
from quant.quantize.quantizers import Doubles, ToCodes, nearest_codes

DAMPING = 0.01  # of the mean channel's moment, for directions that calibration saw little of
BLOCK = FLOAT32_EXACT // CODE**2  # rows whose products float32 adds exactly


class Moments:
    """The sums of an int8 operand's rows, and of their outer products."""

    def __init__(self) -> None:
        self._rows = 0
        self._sums: Doubles = np.zeros(0)
        self._products: Doubles = np.zeros((0, 0))
        self._waiting: list[NDArray[np.float32]] = []

    def add(self, x: NDArray[np.float32]) -> None:
        """Add the rows of x [n, K], integers from -128 to 127."""
        self._waiting.append(x.copy())
        if sum(map(len, self._waiting)) >= BLOCK:
            self._take()

    def _take(self) -> None:
        """Add what waits: a product of many rows costs little more than one of few."""
        rows = np.concatenate(self._waiting)
        self._waiting = []
        if not self._rows:
            self._sums = np.zeros(rows.shape[1])
            self._products = np.zeros((rows.shape[1], rows.shape[1]))
        self._rows += len(rows)
        self._sums += rows.sum(axis=0, dtype=np.float64)
        for first in range(0, len(rows), BLOCK):
            block = rows[first : first + BLOCK]
            self._products += block.T @ block

    @property
    def rows(self) -> int:
        """How many rows were added."""
        if self._waiting:
            self._take()
        return self._rows

    def matrix(self, centred: bool) -> Doubles:
        """n^2 E[x x^T] of the n rows [K, K], or n^2 times their covariance; integers."""
        n = self.rows
        mean = np.outer(self._sums, self._sums) if centred else 0.0
        result: Doubles = n * self._products - mean
        return result


def watch(model: Model, texts: Sequence[Tokens]) -> Mapping[str, Moments]:
    """The moments of every linear layer's operand on these texts, by its name in the trace."""
    found: defaultdict[str, Moments] = defaultdict(Moments)
    engine = WatchedEngine(model, lambda name, x: found[name].add(x))
    for tokens in progress(texts, "watching operands"):
        engine.run_text(tokens.ids, tokens.types)
    return found


def joint_codes(weight: Doubles, moments: Doubles) -> Doubles:
    """Codes -127..127 of weights [out, K] in units of their scales, rounded as said above.

    moments [K, K]: H, times any factor. Without any, as of a constant operand, to nearest.
    """
    damping = DAMPING * np.diag(moments).mean() or 1.0
    order = np.argsort(np.diag(moments), kind="stable")
    factor = np.linalg.cholesky(moments[np.ix_(order, order)] + damping * np.eye(len(order)))
    factor /= np.diag(factor)
    columns = np.ascontiguousarray(weight[:, order].T)  # [K, out], and so are the next two
    codes, errors = np.empty_like(columns), np.empty_like(columns)
    for j in reversed(range(len(order))):
        codes[j] = nearest_codes(columns[j] + factor[j + 1 :, j] @ errors[j + 1 :])
        errors[j] = columns[j] - codes[j]
    result = np.empty_like(weight)
    result[:, order] = codes.T
    return result


def to_codes(moments: Moments | None, centred: bool) -> ToCodes:
    """How a layer's weights become codes: to nearest where fewer rows than channels were seen.

    So few say nothing of some combinations of channels, whose errors would grow.
    """
    if moments is None or moments.rows < len(matrix := moments.matrix(centred)):
        return nearest_codes
    return partial(joint_codes, moments=matrix)

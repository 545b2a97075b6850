"""The feed-forward network's 8-bit codes where a few neurons reach much further than the others.

Its two tensors, before and after the activation f, get asymmetric codes from ``low`` to ``high``:

    u = s_in x + c,   s_in = (high - low) / 255,  c = low + 128 s_in        x the table's input
    h = s_out y + z,  s_out = (max f - min f) / 255,  z = min f + 128 s_out y = T[x] its output
    T[x] = saturate8(round((f(s_in x + c) - z) / s_out))

c and z are taken up by the two layers' biases. A neuron that exceeds ``high`` gets copies with
the same weights, whose k-th has k high less in its bias: for f that ends as the identity, each
copy gives the part of f(u) between k high and (k + 1) high, and their sum, which the second layer
makes, is f(u) again but for what f differs from max(u, 0) near the joints. (Splitting outlier
channels: Zhao et al., "Improving neural network quantization without retraining using outlier
channel splitting", 2019.)
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import ceil, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.linear import LOW_BITS
from quant.model.activation import ACTIVATIONS
from quant.model.spec import Floats
from quant.quantize.observers import Observer
from quant.quantize.quantizers import CODES, Tables, folded, rounded, tables_of

Doubles = NDArray[np.floating[Any]]

COPIES = 16  # most copies a layer: one column tile of the array, or half a one at 32 lanes
LOWS = (0.0, -2.5, -3.0, -3.5)
STEP = 1.1  # between the values of ``high`` that are tried, at most
MARGIN = 1.05  # a neuron is taken to exceed what calibration saw of it by this much
ROWS = 512  # rows on which the choices are compared
COARSE = 8  # every row of so many on which they are compared at first
NEAR = 1.5  # of the least error there, up to which all rows decide


@dataclass(frozen=True)
class Split:
    """The codes of one layer. ``sources`` and ``steps``: neuron and k of each row, copies last.

    On calibration's rows ``means`` is the mean of scale * code, what the second layer reads, and
    ``errors`` of each neuron that of f(u) less what the codes stand for.
    """

    low: float
    high: float
    input_scale: float
    input_centre: float
    output_scale: float
    output_zero: float
    tables: Tables
    sources: NDArray[np.int64]
    steps: NDArray[np.int64]
    means: Doubles = field(default_factory=lambda: np.zeros(0))
    errors: Doubles = field(default_factory=lambda: np.zeros(0))

    def codes(self, u: Floats) -> Doubles:
        """The table's outputs [n, F + copies] of pre-activations u [n, F], halves as fractions."""
        moved = u[:, self.sources] - self.high * self.steps
        x = rounded((moved - self.input_centre) / self.input_scale).clip(-128, 127)
        high, low = self.tables
        table = high if low is None else high + low / 2**LOW_BITS
        return table[x.astype(np.int64) & 255].astype(np.float64)

    def hidden(self, u: Floats) -> Doubles:
        """What the codes stand for, copies apart [n, F + copies]."""
        return self.codes(u) * self.output_scale + self.output_zero

    @property
    def copies(self) -> NDArray[np.int64]:
        """The neuron of each copy."""
        return self.sources[self.steps > 0]

    def up(self, weight: Floats, bias: Floats, width: int) -> tuple[Floats, Floats]:
        """The first layer [F, H] with copies, c taken from its bias, padded to ``width``."""
        moved = bias[self.sources] - self.input_centre - self.high * self.steps
        return padded(weight[self.sources].T, width).T, padded(moved, width)

    def down(self, weight: Floats, bias: Floats, width: int) -> tuple[Floats, Floats]:
        """The second layer [H, F] with copies; its bias gives back what z takes from the codes."""
        copied = weight[:, self.sources]
        sums = copied.sum(axis=1, dtype=np.float64)
        return padded(copied, width), bias + sums * self.output_zero


def splittable(activation: str) -> bool:
    """Whether the function ends as the identity on one side and as 0 on the other."""
    ends = np.array([-30.0, 30.0])
    return bool(np.allclose(ACTIVATIONS[activation](ends), [0, 30], atol=1e-6))


def padded(x: Any, width: int) -> Any:
    """x [..., n] with zeros up to [..., width]."""
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, width - x.shape[-1])])


def split(observer: Observer, weight: Floats, activation: str, precise: bool = False) -> Split:
    """The codes with the least squared error of the second layer's output on calibration's rows.

    weight [H, F] is the second layer's, the activation `splittable`. A constant error is none: it
    moves into the bias. precise: y has 16 bits.
    """
    rows = observer.rows[:: -(-len(observer.rows) // ROWS)].astype(np.float64)
    function = ACTIVATIONS[activation]
    exact = function(rows)
    w = weight.astype(np.float32)

    def error(found: Split, step: int) -> float:
        """The squared error of every step-th row."""
        values = folded(found.hidden(rows[::step]), rows.shape[1], found.copies) - exact[::step]
        values -= values.mean(axis=0)
        return float(np.square(values.astype(np.float32) @ w.T).sum(dtype=np.float64))

    choices = list(_choices(observer, activation, precise))
    coarse = [error(found, COARSE) for found in choices]
    near = [x for x, found in zip(choices, coarse, strict=True) if found <= NEAR * min(coarse)]
    best = min(near, key=lambda found: error(found, 1))
    every = observer.rows.astype(np.float64)
    codes = best.codes(every) * best.output_scale
    values = folded(codes + best.output_zero, every.shape[1], best.copies)
    errors = (function(every) - values).mean(axis=0)
    return replace(best, means=codes.mean(axis=0), errors=errors)


def _choices(observer: Observer, activation: str, precise: bool) -> Iterator[Split]:
    """The codes of every ``low`` and ``high`` that need few enough copies."""
    f = ACTIVATIONS[activation]
    highest = observer.channel_extremes[1] * MARGIN
    top = max(float(highest.max()), 0.5)
    least = min(1.0, top)
    for high in np.geomspace(least, top, 1 + ceil(log(top / least, STEP))):
        copies = np.maximum(np.ceil(highest / high) - 1, 0)  # beyond 64 bits for wild weights
        if copies.sum() > COPIES:
            continue
        count = copies.astype(np.int64)  # the last high needs no copy
        sources = np.concatenate([np.arange(len(count)), np.repeat(np.arange(len(count)), count)])
        steps = np.concatenate([np.zeros_like(count), *(np.arange(1, n + 1) for n in count)])
        for low in LOWS:
            input_scale = (float(high) - low) / 255
            centre = low + 128 * input_scale
            values = f(CODES * input_scale + centre)
            output_scale = float(values.max() - values.min()) / 255
            zero = float(values.min()) + 128 * output_scale
            tables = tables_of((values - zero) / output_scale, precise)
            scales = (input_scale, centre, output_scale, zero)
            yield Split(low, float(high), *scales, tables, sources, steps)

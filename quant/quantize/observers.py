"""Observation of a tensor of the float model, and the clipping point derived from it.

A clipping point is the largest magnitude that the tensor's code represents: 127 (or 32767) times
its scale. It is the largest magnitude seen (min-max): no calibration text saturates it.
"""

from copy import copy
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from golden.window import in_window
from quant.model.activation import ACTIVATIONS
from quant.model.spec import EncoderSpec, Floats
from quant.quantize.quantizers import SCORE_LIMIT, SCORE_UNIT, softmax_change

SAMPLE = 2048  # rows kept at most; half of them at least once that many were seen
SAMPLED = ".ffn.up"  # tensors of which rows are kept, by their last part

Doubles: TypeAlias = NDArray[np.floating[Any]]


class Observer:
    """Extremes and mean of all values and of each channel, and some rows.

    With ``sampled``, ``rows`` keeps every stride-th row; stride is a power of two that doubles when
    SAMPLE rows are exceeded, so what is kept depends on the order of the texts alone.

    Extremes are given rounded to float32, far above what float64 leaves uncertain, so that scales
    made of them are the same on every machine. Nothing is changed in place: a copy goes on by
    itself.
    """

    def __init__(self, sampled: bool = False) -> None:
        self._channel_sums: Doubles = np.zeros(1)
        self._channel_extremes: Doubles = np.array([[np.inf], [-np.inf]])
        self._rows = 0
        self._stride = 1 if sampled else 0
        self._kept: list[NDArray[np.float32]] = []
        self._changes: Doubles = np.zeros(1)

    def observe(self, x: Floats) -> None:
        """Add the values of ``x`` [..., channels]; the last axis of scores [h, L, L] is none."""
        rows = x.reshape(-1, x.shape[-1])
        if x.ndim > 2:
            lows, highs = x.min(), x.max()
        else:
            lows, highs = rows.min(axis=0), rows.max(axis=0)
            if self._stride:  # rows whose number is a multiple of it, before they are counted
                kept = rows[-self._rows % self._stride :: self._stride].astype(np.float32)
                self._kept = [*self._kept, kept]
                while sum(map(len, self._kept)) > SAMPLE:
                    self._kept = [np.concatenate(self._kept)[::2].copy()]  # no view: the rest goes
                    self._stride *= 2
            self._channel_sums = self._channel_sums + rows.sum(axis=0, dtype=np.float64)
            self._rows += rows.shape[0]
        least, most = self._channel_extremes
        self._channel_extremes = np.array([np.minimum(least, lows), np.maximum(most, highs)])

    def saturate(self, scores: Floats, seen: NDArray[np.bool_]) -> None:
        """Add what the limits of 16 bits do to the softmax of ``scores`` [heads, L, L]."""
        self._rows += scores.shape[-1]
        if max(-scores.min(), scores.max()) > SCORE_LIMIT:
            ended = scores.clip(-SCORE_LIMIT, SCORE_LIMIT) * SCORE_UNIT
            change = softmax_change(scores * SCORE_UNIT, ended, seen)
            self._changes = self._changes + change.sum(axis=-1)

    @property
    def softmax_error(self) -> NDArray[np.float64]:
        """Of scores: the mean total variation [heads] that their saturation causes."""
        return self._changes / max(self._rows, 1)

    def reframed(self, factors: Doubles, centres: Doubles) -> "Observer":
        """As of (x - centres) / factors, factors above 0, without rows."""
        result = copy(self)
        result._kept, result._stride = [], 0
        result._channel_sums = (self._channel_sums - self._rows * centres) / factors
        result._channel_extremes = (self._channel_extremes - centres) / factors
        return result

    @property
    def extremes(self) -> tuple[float, float]:
        """The least and the largest value."""
        low, high = self.channel_extremes
        return float(low.min()), float(high.max())

    @property
    def amplitude(self) -> float:
        """The largest magnitude seen."""
        return max(-self.extremes[0], self.extremes[1], 0.0)

    @property
    def channel_means(self) -> Doubles:
        return self._channel_sums / self._rows

    @property
    def channel_extremes(self) -> tuple[Doubles, Doubles]:
        """The least and the largest value of each channel, as float32 numbers."""
        low, high = self._channel_extremes.astype(np.float32).astype(np.float64)
        return low, high

    @property
    def rows(self) -> NDArray[np.float32]:
        """The rows kept, in the order in which they were observed [n, channels]."""
        self._kept = [np.concatenate(self._kept)]
        return self._kept[0]

    def forget_rows(self) -> None:
        """Drop the sampled rows; in a wide layer they are as large as the weights."""
        self._kept = []


class Observing(dict[str, Any]):
    """A trace whose tensors are observed as they come, and the saturation of scores; none stays."""

    def __init__(self, observers: dict[str, Observer], spec: EncoderSpec) -> None:
        super().__init__()
        self._observers, self._spec = observers, spec

    def __setitem__(self, name: str, x: Any) -> None:
        observer = self._observers.setdefault(name, Observer(name.endswith(SAMPLED)))
        for array in x if isinstance(x, list) else [x]:
            observer.observe(array)
            if name.endswith(".scores"):
                window = self._spec.window(int(name.split(".")[1]))
                observer.saturate(array, in_window(window, array.shape[-1]))


def activation_clipping_point(observer: Observer, activation: str) -> float:
    """The least point for which clipping moves the activation's output by at most half an LSB.

    Over the observed range; scales of input and output are tied (docs/numerics.md).
    """
    if not observer.amplitude:
        return 1.0
    f = ACTIVATIONS[activation]
    x = np.linspace(*observer.extremes, 1001)
    for point in observer.amplitude * np.linspace(0.02, 1, 491):
        moved = np.abs(f(x) - f(np.clip(x, -point * 128 / 127, point)))
        if moved.max() <= 0.5 * float(f(np.float64(point))) / 127:
            return float(point)
    return observer.amplitude

"""Measures of a classifier and of the agreement of two, from labels and predictions [n]."""

from dataclasses import dataclass
from math import comb, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Classes = NDArray[np.int64]


def confusion_matrix(labels: Classes, predictions: Classes, classes: int) -> Classes:
    """Counts [classes, classes]: row = true class, column = predicted class."""
    return np.bincount(labels * classes + predictions, minlength=classes**2).reshape(classes, -1)


@dataclass(frozen=True)
class Scores:
    """Accuracy, and precision, recall and F1 of each class, from a confusion matrix.

    precision = TP / (TP + FP), recall = TP / (TP + FN), F1 = 2 TP / (2 TP + FP + FN); not a number
    where a denominator is 0 (a class that is never predicted has no precision), None in JSON.
    """

    confusion: Classes

    @property
    def accuracy(self) -> float:
        return float(self.confusion.trace() / self.confusion.sum())

    @property
    def precision(self) -> NDArray[np.float64]:
        return _ratio(self.confusion.diagonal(), self.confusion.sum(axis=0))

    @property
    def recall(self) -> NDArray[np.float64]:
        return _ratio(self.confusion.diagonal(), self.confusion.sum(axis=1))

    @property
    def f1(self) -> NDArray[np.float64]:
        margins = self.confusion.sum(axis=0) + self.confusion.sum(axis=1)
        return _ratio(2 * self.confusion.diagonal(), margins)

    def to_json(self) -> dict[str, Any]:
        return {
            "accuracy": self.accuracy,
            "accuracy_95": wilson(int(self.confusion.trace()), int(self.confusion.sum())),
            "precision": _defined(self.precision),
            "recall": _defined(self.recall),
            "f1": _defined(self.f1),
            "confusion": self.confusion.tolist(),
        }


def _ratio(part: Classes, whole: Classes) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)


def _defined(values: NDArray[np.float64]) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


def percent(value: float | None, places: int = 2) -> str:
    """A share as it is printed; a dash where it is not defined."""
    return "-" if value is None else f"{value:.{places}%}"


def points(before: float | None, after: float | None) -> str:
    """A change in percentage points, signed; a dash where one of the two is not defined."""
    return "-" if before is None or after is None else f"{100 * (after - before):+.2f}"


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % confidence interval of a proportion (Wilson, 1927)."""
    z = 1.959963984540054
    share = successes / trials
    centre = share + z * z / (2 * trials)
    spread = z * sqrt(share * (1 - share) / trials + z * z / (4 * trials**2))
    whole = 1 + z * z / trials
    return (centre - spread) / whole, (centre + spread) / whole


def mcnemar(only_first_right: int, only_second_right: int) -> float:
    """Two-sided p of McNemar's exact test (1947): are the two classifiers equally often right?

    Under that hypothesis the texts that only one of the two classifies rightly are fair coin flips.
    """
    flips = only_first_right + only_second_right
    tail = sum(comb(flips, k) for k in range(min(only_first_right, only_second_right) + 1))
    return min(1.0, 2 * tail / 2**flips)

"""Measures of a model's answers, and of the agreement of two models, from what is right."""

from dataclasses import dataclass
from math import comb, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Classes = NDArray[np.int64]
Numbers = NDArray[np.floating[Any]]


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

    @property
    def shares(self) -> NDArray[np.float64]:
        """The confusion matrix in shares of each true class, a row; the diagonal is the recall."""
        total = self.confusion.sum(axis=1, keepdims=True)
        empty = np.full(self.confusion.shape, np.nan)
        return np.divide(self.confusion, total, out=empty, where=total > 0)

    def to_json(self) -> dict[str, Any]:
        return {
            "accuracy": self.accuracy,
            "accuracy_95": wilson(int(self.confusion.trace()), int(self.confusion.sum())),
            "precision": _defined(self.precision),
            "recall": _defined(self.recall),
            "f1": _defined(self.f1),
            "confusion": self.confusion.tolist(),
            "confusion_shares": [_defined(row) for row in self.shares],
        }


@dataclass(frozen=True)
class LabelScores:
    """Measures of several labels at once, from which hold and which are said to, bool [n, C].

    F1 of a label as in Scores; macro: the mean of those that are defined; micro: of all decisions
    counted together; exact: the share of the texts with every label right.
    """

    right: NDArray[np.bool_]
    said: NDArray[np.bool_]

    @property
    def counts(self) -> Classes:
        """[C, 3]: true positives, false positives, false negatives."""
        right, said = self.right, self.said
        return np.stack([(right & said).sum(0), (~right & said).sum(0), (right & ~said).sum(0)], 1)

    def to_json(self) -> dict[str, Any]:
        true, false, missed = self.counts.T
        f1 = _ratio(2 * true, 2 * true + false + missed)
        total = self.counts.sum(axis=0, keepdims=True).T
        micro = _ratio(2 * total[0], 2 * total[0] + total[1] + total[2])
        exact = (self.right == self.said).all(axis=1)
        return {
            "exact": float(exact.mean()),
            "exact_95": wilson(int(exact.sum()), len(exact)),
            "micro_f1": _defined(micro)[0],
            "macro_f1": None if np.isnan(f1).all() else float(np.nanmean(f1)),
            "precision": _defined(_ratio(true, true + false)),
            "recall": _defined(_ratio(true, true + missed)),
            "f1": _defined(f1),
        }


def determination(values: Numbers, exact: Numbers) -> Numbers:
    """R^2 of each column of [n, C]: 1 - sum (value - exact)^2 / sum (exact - mean)^2.

    1 where the exact values are all the same, of which no share can be explained.
    """
    spread = np.square(exact - exact.mean(axis=0)).sum(axis=0)
    error = np.square(values - exact).sum(axis=0)
    return 1 - np.divide(error, spread, out=np.zeros(len(spread)), where=spread > 0)


def pearson(a: Numbers, b: Numbers) -> float | None:
    """The correlation of two series [n]; None where one of them does not vary."""
    a, b = a - a.mean(), b - b.mean()
    norm = sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / norm if norm > 0 else None


def ranks(values: Numbers) -> Numbers:
    """From 1; equal values have the mean of their ranks."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place]


def spearman(a: Numbers, b: Numbers) -> float | None:
    """The correlation of the ranks of two series [n] (Spearman, 1904)."""
    return pearson(ranks(a), ranks(b))


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

"""Measures of a model's answers and vectors, and of how near those of two models are.

Tags of words are those of IOB2, IOBES and their like: O, or a prefix, a hyphen and a type, where B
and S begin an entity, I and E (L) go on with it, E (L), S and U end it. What does not follow these
rules is read as conlleval of CoNLL-2000 reads it, and seqeval by default: an I behind O or behind
another type begins an entity.

`scipy.stats` is imported where it is used: it takes a second, which `make sim` does not need.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Classes = NDArray[np.int64]
Numbers = NDArray[np.floating[Any]]
Vectors = NDArray[np.integer[Any]] | Numbers
MODELS = ("float", "golden")

OUTSIDE = "O"
"""The tag of a word that belongs to nothing (Ramshaw and Marcus, 1995)."""

_TAG = re.compile(r"O|[BIESLU]-.+")


def confusion_matrix(labels: Classes, predictions: Classes, classes: int) -> Classes:
    """Counts [classes, classes]: row = true class, column = predicted class."""
    return np.bincount(labels * classes + predictions, minlength=classes**2).reshape(classes, -1)


def class_scores(confusion: Classes) -> dict[str, Any]:
    """Accuracy, and precision, recall and F1 of each class, from a confusion matrix.

    precision = TP / (TP + FP), recall = TP / (TP + FN), F1 = 2 TP / (2 TP + FP + FN); None where a
    denominator is 0 (a class that is never predicted has no precision).
    """
    right, said, true = confusion.diagonal(), confusion.sum(axis=0), confusion.sum(axis=1)
    return {
        "accuracy": float(right.sum() / confusion.sum()),
        "accuracy_95": wilson(int(right.sum()), int(confusion.sum())),
        **by_name(right, said, true),
        "confusion": confusion.tolist(),
    }


def label_scores(right: NDArray[np.bool_], said: NDArray[np.bool_]) -> dict[str, Any]:
    """Measures of several labels at once, from which hold and which are said to, bool [n, C].

    F1 of a label as in `class_scores`; macro: the mean of those that are defined; micro: of all
    decisions counted together; exact: the share of the texts with every label right.
    """
    exact = (right == said).all(axis=1)
    counts = [part.sum(axis=0) for part in (right & said, said, right)]
    names = by_name(*counts)
    defined = [f1 for f1 in names["f1"] if f1 is not None]
    return {
        "exact": float(exact.mean()),
        "exact_95": wilson(int(exact.sum()), len(exact)),
        "micro_f1": by_name(*(count.sum(keepdims=True) for count in counts))["f1"][0],
        "macro_f1": float(np.mean(defined)) if defined else None,
        **names,
    }


def by_name(found: Classes, said: Classes, right: Classes) -> dict[str, list[float | None]]:
    """Precision, recall and F1 of several names, from how often each was found, said and right."""
    f1 = _ratios(2 * found, said + right)
    return {"precision": _ratios(found, said), "recall": _ratios(found, right), "f1": f1}


def _ratios(part: Classes, whole: Classes) -> list[float | None]:
    return [float(a / b) if b else None for a, b in zip(part, whole, strict=True)]


def tagged(names: Sequence[str]) -> bool:
    """These names of classes are such tags, of one entity type or more."""
    return all(map(_TAG.fullmatch, names)) and any(name != OUTSIDE for name in names)


def entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """The entities of a text in their order: type, first and last word."""
    found: list[tuple[str, int, int]] = []
    first, before = 0, OUTSIDE
    for place, tag in enumerate([*tags, OUTSIDE]):
        if before != OUTSIDE and _ends(before, tag):
            found.append((before[2:], first, place - 1))
        if tag != OUTSIDE and (before == OUTSIDE or _ends(before, tag)):
            first = place
        before = tag
    return found


def _ends(before: str, tag: str) -> bool:
    """An entity ends between two tags, of which the first belongs to one."""
    return tag == OUTSIDE or before[0] in "ESLU" or tag[0] in "BSU" or before[2:] != tag[2:]


def entity_scores(right: Sequence[Sequence[str]], said: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Of the texts' tags: micro precision, recall and F1 of the entities, and F1 of each type.

    An entity counts as found where its type and all its words are right.
    """
    a, b = (
        {(number, *one) for number, tags in enumerate(texts) for one in entities(tags)}
        for texts in (right, said)
    )
    kinds = sorted({kind for _, kind, *_ in a | b})
    several = [Counter(kind for _, kind, *_ in some) for some in (a & b, b, a)]
    counts = [np.array([counter[kind] for kind in kinds], np.int64) for counter in several]
    micro = by_name(*(count.sum(keepdims=True) for count in counts))
    shares = {name: values[0] for name, values in micro.items()}
    return {"entities": len(a), **shares, "f1_by_type": dict(zip(kinds, by_name(*counts)["f1"]))}


def determination(values: Numbers, exact: Numbers) -> Numbers:
    """R^2 of each column of [n, C]: 1 - sum (value - exact)^2 / sum (exact - mean)^2.

    1 where the exact values are all the same, of which no share can be explained.
    """
    spread = np.square(exact - exact.mean(axis=0)).sum(axis=0)
    error = np.square(values - exact).sum(axis=0)
    return 1 - np.divide(error, spread, out=np.zeros(len(spread)), where=spread > 0)


def pearson(a: Numbers, b: Numbers) -> float | None:
    """The correlation of two series [n]; None where one of them does not vary."""
    from scipy import stats

    return float(stats.pearsonr(a, b).statistic) if np.ptp(a) and np.ptp(b) else None


def spearman(a: Numbers, b: Numbers) -> float | None:
    """The correlation of the ranks of two series [n] (Spearman, 1904)."""
    from scipy import stats

    return pearson(stats.rankdata(a), stats.rankdata(b))


def unit(vectors: Vectors) -> NDArray[np.float64]:
    """Each row divided by its length; a row of zeros stays as it is."""
    x = np.asarray(vectors, np.float64)
    lengths = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
    return x / np.where(lengths > 0, lengths, 1.0)


def cosines(a: Vectors, b: Vectors) -> NDArray[np.float64]:
    """The cosine of each row of ``a`` with the same row of ``b`` [n]."""
    return np.sum(unit(a) * unit(b), axis=-1)


def distance(a: Vectors, b: Vectors) -> float:
    """The mean distance of the ends of the unit vectors, sqrt(2 - 2 cos)."""
    return float(np.sqrt(np.sum((unit(a) - unit(b)) ** 2, axis=-1)).mean())


def nearest(vectors: Vectors) -> NDArray[np.int64]:
    """For each row the other row with the largest cosine, the first of several [n >= 2]."""
    x, found = unit(vectors), []
    for i, row in enumerate(x):
        similar = x @ row
        similar[i] = -np.inf
        found.append(similar.argmax())
    return np.array(found)


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % confidence interval of a proportion (Wilson, 1927)."""
    from scipy import stats

    low, high = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    return float(low), float(high)


def mcnemar(only_first_right: int, only_second_right: int) -> float:
    """Two-sided p of McNemar's exact test (1947): are the two classifiers equally often right?

    Under that hypothesis the texts that only one of the two classifies rightly are fair coin flips.
    """
    from scipy import stats

    flips = only_first_right + only_second_right
    return float(stats.binomtest(only_first_right, flips).pvalue) if flips else 1.0


def shown(values: Mapping[str, Any]) -> str:
    """Values as a command prints them: a line each, those of float and golden side by side.

    Nested ones have all their names. Lists of numbers, such as matrices, are for JSON alone.
    """
    lines: dict[str, list[str]] = {}
    for path, value in _leaves(values, ()):
        name = " ".join(part.replace("_", " ") for part in path if part not in MODELS)
        model = "".join(f"{part} " for part in path if part in MODELS)
        lines.setdefault(name, []).append(f"{model}{value}")
    width = max(map(len, lines), default=0)
    return "\n".join(f"{name:{width}}  {'; '.join(cells)}" for name, cells in lines.items())


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    elif isinstance(value, tuple) or (isinstance(value, list) and {*map(type, value)} == {str}):
        yield path, ", ".join(map(_cell, value))
    elif isinstance(value, int | float | str):
        yield path, _cell(value)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}"
    return str(value) if isinstance(value, bool | str) else f"{value:,}"

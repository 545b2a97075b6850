"""NB-SVM, a linear teacher to distil from (Wang and Manning, "Baselines and Bigrams", 2012).

The features of a text are its distinct tokens, bigrams and bigrams with a gap of one token, each
scaled by its naive Bayes log-count ratio

    r = log((p / |p|) / (q / |q|)),   p = 1 + number of texts of the class with the n-gram,
                                      q = 1 + number of other texts with it

and a logistic regression with L2 penalty learns on them, each class against the rest. It reads
token ids, so it scores any window of a text that the student is shown.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

Ids = NDArray[np.int32]

_STRENGTH = 0.2  # the inverse of the L2 penalty


class NbSvm:
    """Logits [classes] of a text."""

    def __init__(self, texts: Sequence[Ids], labels: NDArray[np.int64], classes: int) -> None:
        # An n-gram of one text says nothing about others.
        self.counts = CountVectorizer(analyzer=ngrams, binary=True, min_df=2, dtype=np.float64)
        present = self.counts.fit_transform(texts)
        columns, biases = [], []
        for label in range(classes):
            inside = labels == label
            p, q = (1 + np.asarray(present[rows].sum(0)).ravel() for rows in (inside, ~inside))
            ratio = np.log((p / p.sum()) / (q / q.sum()))
            machine = LogisticRegression(
                C=_STRENGTH, solver="liblinear", dual=True, max_iter=1000, random_state=0
            )
            machine.fit(present.multiply(ratio).tocsr(), inside)
            columns.append(machine.coef_[0] * ratio)
            biases.append(machine.intercept_[0])
        scale = 0.5 if classes == 2 else 1  # both are the same machine
        self.weights, self.bias = scale * np.stack(columns, 1), scale * np.array(biases)

    def __call__(self, ids: Ids) -> NDArray[np.float32]:
        logits = self.counts.transform([ids]) @ self.weights + self.bias
        return np.asarray(logits[0], np.float32)


def ngrams(ids: Ids) -> list[str]:
    """Those of [CLS] text [SEP]."""
    inner = list(map(str, ids[1:-1].tolist()))
    pairs = map(" ".join, pairwise(inner))
    return [*inner, *pairs, *map(" _ ".join, zip(inner, inner[2:]))]

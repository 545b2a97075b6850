"""NB-SVM, a linear teacher to distil from (Wang and Manning, "Baselines and Bigrams", 2012).

The features of a text are its distinct tokens, bigrams and bigrams with a gap of one token, each
scaled by its naive Bayes log-count ratio

    r = log((p / |p|) / (q / |q|)),   p = 1 + number of texts of the class with the n-gram,
                                      q = 1 + number of other texts with it

and a logistic regression with L2 penalty learns on them; more than two classes are one against the
rest. It reads token ids, so it scores any window of a text that the student is shown.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import LogisticRegression

Ids = NDArray[np.int32]

_FEWEST_TEXTS = 2  # an n-gram of one text says nothing about others
_STRENGTH = 0.2  # the inverse of the L2 penalty


class NbSvm:
    """The n-grams as sorted keys [n], their weights [n, labels] and the bias [labels]."""

    def __init__(
        self, texts: Sequence[Ids], labels: NDArray[np.int64], *, classes: int, vocabulary: int
    ) -> None:
        self.vocabulary = vocabulary
        grams = [ngrams(ids, vocabulary) for ids in texts]
        keys, counts = np.unique(np.concatenate(grams), return_counts=True)
        self.keys = keys[counts >= _FEWEST_TEXTS]
        found = [self._places(row) for row in grams]
        ends = np.cumsum([0, *map(len, found)])
        present = sparse.csr_matrix(
            (np.ones(ends[-1]), np.concatenate(found), ends), shape=(len(grams), len(self.keys))
        )
        columns, biases = [], []
        for label in range(classes) if classes > 2 else (1,):
            inside = labels == label
            p = 1 + np.asarray(present[inside].sum(0)).ravel()
            q = 1 + np.asarray(present[~inside].sum(0)).ravel()
            ratio = np.log((p / p.sum()) / (q / q.sum()))
            machine = LogisticRegression(
                C=_STRENGTH, solver="liblinear", dual=True, max_iter=1000, random_state=0
            )
            machine.fit(present @ sparse.diags(ratio), inside)
            columns.append(machine.coef_[0] * ratio)
            biases.append(machine.intercept_[0])
        weights, bias = np.stack(columns, 1), np.array(biases)
        if classes == 2:
            weights, bias = weights * [[-0.5, 0.5]], bias * np.array([-0.5, 0.5])
        self.weights, self.bias = weights.astype(np.float32), bias.astype(np.float32)

    def __call__(self, ids: Ids) -> NDArray[np.float32]:
        """Logits [labels] of a text."""
        places = self._places(ngrams(ids, self.vocabulary))
        return np.asarray(self.bias + self.weights[places].sum(0), np.float32)

    def _places(self, grams: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the known ones of sorted n-grams stand among the keys."""
        at = np.minimum(np.searchsorted(self.keys, grams), len(self.keys) - 1)
        return at[self.keys[at] == grams]


def ngrams(ids: Ids, vocabulary: int) -> NDArray[np.int64]:
    """Keys of the distinct n-grams of [CLS] text [SEP], with V the vocabulary.

    A token a has key a; a bigram a b has (a + 1)*V + b; a . b, with any token between, has V^2 + V
    more than that.
    """
    inner = ids[1:-1].astype(np.int64)
    pairs = (inner[:-1] + 1) * vocabulary + inner[1:]
    skips = (inner[:-2] + vocabulary + 2) * vocabulary + inner[2:]
    return np.unique(np.concatenate([inner, pairs, skips]))

"""Teachers to distil from: NB-SVM on n-grams of token ids, or a fine-tuned checkpoint.

NB-SVM (Wang and Manning, "Baselines and Bigrams", 2012), with logistic loss: the features of a text
are its distinct tokens, bigrams and bigrams with a gap of one token, each scaled by its naive Bayes
log-count ratio

    r = log((p / |p|) / (q / |q|)),   p = 1 + number of texts of the class with the n-gram,
                                      q = 1 + number of other texts with it

and a linear classifier with L2 penalty learns on them; more than two classes are one against the
rest. As it reads token ids, it scores any window of a text, just what the student is shown.
"""

from collections.abc import Sequence
from pathlib import Path

from cli.files import replacing

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load_file, save_file
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from train.batches import clip, pad
from train.checkpoint import Classifier, positions_of
from train.model import logits_of
from train.tokens import SpecialTokens

Ids = npt.NDArray[np.int32]
Logits = npt.NDArray[np.float32]

_FEWEST_TEXTS = 2  # an n-gram of one text says nothing about others


class NbSvm:
    """A trained NB-SVM: sorted n-gram keys [n], their weights [n, labels] and the bias [labels]."""

    def __init__(
        self, keys: npt.NDArray[np.int64], weights: Logits, bias: Logits, vocabulary: int
    ) -> None:
        self.keys = keys
        self.weights = weights
        self.bias = bias
        self.vocabulary = vocabulary

    def __call__(self, texts: Sequence[Ids]) -> Logits:
        """Logits [texts, labels] of sequences of token ids."""
        logits = np.empty((len(texts), len(self.bias)), np.float32)
        for row, ids in enumerate(texts):
            grams = ngrams(ids, self.vocabulary)
            at = np.minimum(np.searchsorted(self.keys, grams), len(self.keys) - 1)
            at = at[self.keys[at] == grams]
            logits[row] = self.bias + self.weights[at].sum(0)
        return logits

    def save(self, path: Path) -> None:
        tensors = {"keys": self.keys, "weights": self.weights, "bias": self.bias}
        with replacing(path) as temporary:
            save_file(tensors, temporary)

    @classmethod
    def load(cls, path: Path, vocabulary: int) -> "NbSvm":
        tensors = load_file(path)
        return cls(tensors["keys"], tensors["weights"], tensors["bias"], vocabulary)


def ngrams(ids: Ids, vocabulary: int) -> npt.NDArray[np.int64]:
    """Keys of the distinct n-grams of [CLS] text [SEP], with V the vocabulary.

    A token a has key a; a bigram a b has (a + 1)*V + b; a . b, with any token between, has V^2 + V
    more than that.
    """
    inner = ids[1:-1].astype(np.int64)
    pairs = (inner[:-1] + 1) * vocabulary + inner[1:]
    skips = (inner[:-2] + vocabulary + 2) * vocabulary + inner[2:]
    return np.unique(np.concatenate([inner, pairs, skips]))


def train_nb_svm(
    texts: Sequence[Ids],
    labels: npt.NDArray[np.int64],
    *,
    classes: int,
    vocabulary: int,
    strength: float = 0.2,
) -> NbSvm:
    """An NB-SVM of labelled token sequences; ``strength`` is the inverse of the L2 penalty."""
    grams = [ngrams(ids, vocabulary) for ids in texts]
    keys, counts = np.unique(np.concatenate(grams), return_counts=True)
    keys = keys[counts >= _FEWEST_TEXTS]
    present = _presence(grams, keys)
    columns, biases = [], []
    for label in range(classes) if classes > 2 else (1,):
        inside = labels == label
        p = 1 + np.asarray(present[inside].sum(0)).ravel()
        q = 1 + np.asarray(present[~inside].sum(0)).ravel()
        ratio = np.log((p / p.sum()) / (q / q.sum()))
        machine = LogisticRegression(
            C=strength, solver="liblinear", dual=True, max_iter=1000, random_state=0
        )
        machine.fit(present @ sparse.diags(ratio), inside)
        columns.append(machine.coef_[0] * ratio)
        biases.append(machine.intercept_[0])
    weights, bias = np.stack(columns, 1), np.array(biases)
    if classes == 2:
        weights, bias = weights * [[-0.5, 0.5]], bias * np.array([-0.5, 0.5])
    return NbSvm(keys, weights.astype(np.float32), bias.astype(np.float32), vocabulary)


class CheckpointTeacher:
    """A fine-tuned classifier with the same vocabulary and labels, as a teacher."""

    def __init__(self, model: Classifier, special: SpecialTokens, device: str) -> None:
        self.model = model.eval().to(device)
        self.special = special
        self.device = device

    @torch.no_grad()
    def __call__(self, texts: Sequence[Ids]) -> Logits:
        """Logits [texts, labels] of sequences of token ids, cut to the teacher's positions."""
        positions = positions_of(self.model.config.to_dict())
        batch = pad([clip(ids, positions, self.special) for ids in texts], self.special)
        logits: Logits = logits_of(self.model, batch, self.device).float().cpu().numpy()
        return logits


def _presence(
    grams: Sequence[npt.NDArray[np.int64]], keys: npt.NDArray[np.int64]
) -> sparse.csr_matrix:
    """1 where text i has n-gram j."""
    columns, ends = [], [0]
    for row in grams:
        at = np.minimum(np.searchsorted(keys, row), len(keys) - 1)
        columns.append(at[keys[at] == row])
        ends.append(ends[-1] + len(columns[-1]))
    indices = np.concatenate(columns)
    return sparse.csr_matrix(
        (np.ones(len(indices)), indices, np.array(ends)), shape=(len(grams), len(keys))
    )

"""Datasets of torch: token ids with their labels; a teacher; and how right a model is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, f1_score, r2_score
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from quant.model.spec import CLASSIFICATION, MULTI_LABEL, REGRESSION, TOKEN_CLASSIFICATION
from train.encoders import IGNORED

Array = NDArray[Any]
Item = dict[str, Any]


def window(count: int, length: int, rng: np.random.Generator | None = None) -> Array:
    """The places of at most ``length`` of ``count`` tokens: the first, the last, and some between.

    These are the beginning of the text, or from a random place of it, where the beginning and the
    end, which say most, have a third of the choices each.
    """
    if count <= length:
        return np.arange(count)
    room = count - length
    start = 0 if rng is None else int(np.clip(rng.integers(-room, 2 * room + 1), 0, room))
    return np.concatenate([[0], np.arange(start + 1, start + length - 1), [count - 1]])


class Texts(Dataset):
    """Texts, their beginnings of at most ``length`` tokens."""

    def __init__(self, found: Sequence[Any], task: str, tokenizer: Any, length: int) -> None:
        self.length, self.mask = length, tokenizer.mask_token_id
        self.words = task == TOKEN_CLASSIFICATION
        texts = [list(content) if self.words else content for content, _ in found]
        encoded = tokenizer(texts, is_split_into_words=self.words, verbose=False)
        self.ids = [np.array(ids, np.int32) for ids in encoded["input_ids"]]
        self.labels: Any = [target for _, target in found]
        if self.words:
            self.labels = [_tags(encoded.word_ids(i), x) for i, x in enumerate(self.labels)]
        else:
            kind = np.int64 if task == CLASSIFICATION else np.float32
            self.labels = np.array(self.labels, kind)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Item:
        return self.shown(index, window(len(self.ids[index]), self.length))

    def shown(self, index: int, places: Array) -> Item:
        """A text by these of its tokens."""
        labels = self.labels[index]
        labels = labels[places] if self.words else labels
        return {"input_ids": self.ids[index][places], "labels": labels}


@dataclass
class Windows(Dataset):
    """Texts in training: windows of them, with some words shown as [MASK].

    Both are drawn from (seed, epoch, text), so a run that is resumed sees what one without a break
    does. Of several ``lengths`` each has its share of the epochs. A teacher sees the same window,
    without dropped words.
    """

    texts: Texts
    lengths: Sequence[int]
    epochs: int
    seed: int
    dropped: float
    teacher: Callable[[Array], Array] | None
    epoch: int = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Item:
        rng = np.random.default_rng((self.seed, self.epoch, index))
        length = self.lengths[min(self.epoch, self.epochs - 1) * len(self.lengths) // self.epochs]
        item = self.texts.shown(index, window(len(self.texts.ids[index]), length, rng))
        ids = item["input_ids"]
        if self.teacher is not None:
            item["teacher"] = self.teacher(ids)
        hidden = rng.random(len(ids)) < self.dropped
        hidden[[0, -1]] = False
        item["input_ids"] = np.where(hidden, self.texts.mask, ids) if self.dropped else ids
        return item


def _tags(words: Sequence[int | None], tags: Sequence[int | None]) -> Array:
    """The label of each token: that of the word that begins there, or IGNORED."""
    labels = np.full(len(words), IGNORED, np.int64)
    for place, word in enumerate(words):
        tag = None if word is None or word in words[:place] else tags[word]
        labels[place] = IGNORED if tag is None else tag
    return labels


def padded(items: Sequence[Item], padding: int) -> dict[str, torch.Tensor]:
    """A batch; sequences are padded to the longest, with a mask."""
    batch: dict[str, torch.Tensor] = {}
    for name in items[0]:
        rows = [torch.as_tensor(item[name]) for item in items]
        rows = [row if row.is_floating_point() else row.long() for row in rows]
        fill = padding if name == "input_ids" else IGNORED
        batch[name] = pad_sequence(rows, True, fill) if rows[0].ndim else torch.stack(rows)
    lengths = torch.tensor([[len(item["input_ids"])] for item in items])
    batch["attention_mask"] = (torch.arange(int(lengths.max())) < lengths).long()
    return batch


def figures(task: str, logits: Array, labels: Array) -> dict[str, Any]:
    """What is right in percent: "accuracy", of numbers R^2; of classes with macro F1 and confusion.

    "confusion": percent of the examples of each class (row) by the class that is said (column).
    """
    if task == REGRESSION:
        return {"accuracy": 100 * float(r2_score(labels, logits))}
    if task == MULTI_LABEL:
        return {"accuracy": 100 * float(((logits > 0) == (labels > 0.5)).all(axis=1).mean())}
    known = labels != IGNORED
    found, right = logits.argmax(-1)[known], labels[known]
    measured: dict[str, Any] = {"accuracy": 100 * float((found == right).mean())}
    if task != TOKEN_CLASSIFICATION:
        classes = range(logits.shape[-1])
        measured["f1"] = 100 * float(f1_score(right, found, average="macro", zero_division=1.0))
        shares = confusion_matrix(right, found, labels=classes, normalize="true")
        measured["confusion"] = np.round(100 * shares, 2).tolist()
    return measured


class NbSvm:
    """NB-SVM, a linear teacher to distil from (Wang and Manning, "Baselines and Bigrams", 2012).

    The features of a text are its distinct tokens, bigrams and bigrams with a gap of one token,
    each scaled by its naive Bayes log-count ratio

        r = log((p / |p|) / (q / |q|)),   p = 1 + number of texts of the class with the n-gram,
                                          q = 1 + number of other texts with it

    and a logistic regression with L2 penalty learns on them, each class against the rest. Called
    with the ids of any window of a text it gives logits [classes].
    """

    def __init__(self, texts: Sequence[Array], labels: Array, classes: int) -> None:
        # An n-gram of one text says nothing about others.
        self.counts = CountVectorizer(analyzer=ngrams, binary=True, min_df=2, dtype=np.float64)
        present = self.counts.fit_transform(texts)
        columns, biases = [], []
        for label in range(classes):
            inside = labels == label
            p, q = (1 + np.asarray(present[rows].sum(0)).ravel() for rows in (inside, ~inside))
            ratio = np.log((p / p.sum()) / (q / q.sum()))
            machine = LogisticRegression(
                C=0.2, solver="liblinear", dual=True, max_iter=1000, random_state=0
            )
            machine.fit(present.multiply(ratio).tocsr(), inside)
            columns.append(machine.coef_[0] * ratio)
            biases.append(machine.intercept_[0])
        scale = 0.5 if classes == 2 else 1  # both are the same machine
        self.weights, self.bias = scale * np.stack(columns, 1), scale * np.array(biases)

    def __call__(self, ids: Array) -> NDArray[np.float32]:
        logits = self.counts.transform([ids]) @ self.weights + self.bias
        return np.asarray(logits[0], np.float32)


def ngrams(ids: Array) -> list[str]:
    """Those of [CLS] text [SEP]."""
    inner = list(map(str, ids[1:-1].tolist()))
    pairs = map(" ".join, pairwise(inner))
    return [*inner, *pairs, *map(" _ ".join, zip(inner, inner[2:]))]

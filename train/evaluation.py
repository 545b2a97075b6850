"""Accuracy and loss of a classifier on labelled token sequences."""

from collections.abc import Sequence
from typing import Any

from cli.progress import progress

import numpy as np
import numpy.typing as npt
import torch

from train.batches import by_length, clip, pad
from train.checkpoint import Classifier
from train.model import logits_of
from train.tokens import SpecialTokens

_BATCH = 50


def predict(
    model: Classifier, texts: Sequence[npt.NDArray[np.int32]], **how: Any
) -> npt.NDArray[np.float64]:
    """Logits [texts, labels]; arguments as for `predicted`."""
    return np.stack(predicted(model, texts, **how))


@torch.no_grad()
def predicted(
    model: torch.nn.Module,
    texts: Sequence[npt.NDArray[np.int32]],
    *,
    length: int,
    special: SpecialTokens,
    device: str,
    description: str,
) -> list[npt.NDArray[np.float64]]:
    """Logits of the first ``length`` tokens of each text, computed in float32.

    Of a text [labels]; of a model that gives every token its own [tokens, labels].
    """
    model.eval()
    clipped = [clip(ids, length, special) for ids in texts]
    lengths = [len(ids) for ids in clipped]
    rows: list[npt.NDArray[np.float64]] = [np.empty(0)] * len(texts)
    batches = list(by_length(lengths, _BATCH))
    for indices in progress(batches, f"{description}, {len(texts):,} texts", "batches"):
        batch = pad([clipped[i] for i in indices], special)
        logits = logits_of(model, batch, device).double().cpu().numpy()
        for index, row in zip(indices, logits):
            rows[index] = row[: lengths[index]] if row.ndim == 2 else row
    return rows


def figures(logits: npt.NDArray[np.floating], labels: npt.NDArray[np.int64]) -> dict[str, float]:
    """Accuracy in percent, mean negative log-likelihood in nats, macro-averaged F1 in percent."""
    shifted = logits - logits.max(1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    predicted = logits.argmax(1)
    f1 = []
    for label in range(logits.shape[1]):
        hits = int(((predicted == label) & (labels == label)).sum())
        total = int((predicted == label).sum() + (labels == label).sum())
        f1.append(2 * hits / total if total else 1.0)
    return {
        "accuracy": 100 * float((predicted == labels).mean()),
        "loss": float(-log_p[np.arange(len(labels)), labels].mean()),
        "f1": 100 * float(np.mean(f1)),
    }

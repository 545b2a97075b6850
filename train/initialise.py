"""Better starting points than random weights, for a model that sees little text.

``pca_embeddings``: word embeddings of a large pre-trained checkpoint, projected on their first
principal components. ``attend_to_neighbours``: sinusoidal positions, and queries and keys of the
first layer such that its heads start out attending to the previous, next, ... token, as trained
encoders do (compare Trockman and Kolter, "Mimetic initialization of self-attention layers", 2023);
so the model need not learn from scarce data what an n-gram is.
"""

from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from transformers import (
    BertForMaskedLM,
    BertForSequenceClassification,
    RobertaForSequenceClassification,
)

from train.failure import TrainError
from train.heartbert import FusedForMaskedLM

Encoder: TypeAlias = (
    BertForSequenceClassification
    | RobertaForSequenceClassification
    | BertForMaskedLM
    | FusedForMaskedLM
)

_WORD_EMBEDDINGS = ("embeddings.word_embeddings.weight", "bert.embeddings.word_embeddings.weight")
_DEVIATION = 0.02  # of BERT's initialisation
_POSITION_SHARE = 2  # 1/2 of the channels carry the position
_SHARPNESS = 7.0  # score of the attended neighbour; that of the others is near 0


@torch.no_grad()
def pca_embeddings(own: torch.Tensor, directory: Path, deviation: float = _DEVIATION) -> None:
    """Set word embeddings to the principal components of those of another checkpoint.

    The largest components come last, so that ``attend_to_neighbours`` displaces the smallest. All
    are scaled together to ``deviation``. Raises TrainError when the checkpoint
    has another vocabulary or is narrower.
    """
    path = directory / "model.safetensors"
    try:
        with safe_open(path, framework="numpy") as file:
            names = [name for name in _WORD_EMBEDDINGS if name in set(file.keys())]
            if not names:
                raise TrainError(f"{path} has no tensor {_WORD_EMBEDDINGS[0]}")
            words = file.get_tensor(names[0]).astype(np.float64)
    except (OSError, SafetensorError) as error:
        raise TrainError(f"{path} cannot be read: {error}") from None
    if words.shape[0] != own.shape[0] or words.shape[1] < own.shape[1]:
        raise TrainError(
            f"{path}: word embeddings {list(words.shape)} cannot become {list(own.shape)}: "
            "the vocabulary must be the same and the width at least as large"
        )
    words -= words.mean(0)
    _, vectors = np.linalg.eigh(words.T @ words)
    reduced = words @ vectors[:, -own.shape[1] :]  # eigh sorts from the smallest
    own.copy_(torch.from_numpy(reduced / reduced.std() * deviation))


@torch.no_grad()
def attend_to_neighbours(model: Encoder) -> None:
    """Start the heads of layer 0 as attention to the tokens at distance -1, +1, -2, +2, ...

    Changes word embeddings [V, H] and position embeddings [P, H], and the query and key weights of
    layer 0 [H, H], in place.

    Position i carries cosine and sine of i*w for random frequencies w on half of the channels. With
    each such pair rotated in the query, q_i = R(w*d) p_i, and k_j = p_j, the score is
    sum over w of cos(w (i + d - j)): its peak is at j = i + d, and elsewhere the cosines cancel.
    """
    heads = model.config.num_attention_heads
    if isinstance(model, FusedForMaskedLM):
        words, positions = model.embeddings.word.weight, model.embeddings.position.weight
        query, key, _ = model.layers[0].qkv.weight.chunk(3)
    else:
        encoder = model.base_model
        table, first = encoder.embeddings, encoder.encoder.layer[0].attention.self
        words, positions = table.word_embeddings.weight, table.position_embeddings.weight
        query, key = first.query.weight, first.key.weight
    hidden = words.shape[1]
    size = hidden // heads
    pairs = min(hidden // _POSITION_SHARE, size) // 2
    frequency = np.random.default_rng(hidden).uniform(0, np.pi, pairs)
    angle = torch.from_numpy(np.outer(np.arange(len(positions)), frequency))
    # Positions get about as much of the variance, by which the norm divides, as words.
    radius = float(words.std()) * (hidden / pairs) ** 0.5
    words[:, : 2 * pairs] *= 0.5
    positions.zero_()
    positions[:, 0 : 2 * pairs : 2] = radius * angle.cos().float()
    positions[:, 1 : 2 * pairs : 2] = radius * angle.sin().float()
    normed = radius / float((words[1:] + positions[:1]).std())
    gain = (_SHARPNESS * size**0.5 / pairs) ** 0.5 / normed
    for head in range(heads):
        distance = (-1) ** (head + 1) * (head // 2 + 1)
        for pair in range(pairs):
            row, column = head * size + 2 * pair, 2 * pair
            c, s = np.cos(frequency[pair] * distance), np.sin(frequency[pair] * distance)
            rotation = torch.tensor([[c, -s], [s, c]], dtype=torch.float32)
            query[row : row + 2, column : column + 2] += gain * rotation
            key[row : row + 2, column : column + 2] += gain * torch.eye(2)

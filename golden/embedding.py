"""The sum of token, position and segment embeddings."""

import numpy as np

from golden.model import Embedding


def embed(ids: np.ndarray, types: np.ndarray, embedding: Embedding, offset: int = 0) -> np.ndarray:
    """x[t] = a_t * token[ids[t]] + a_p * position[types[t]][t + offset]

           + token_low[ids[t]] + position_low[types[t]][t + offset]     where there are low tables

    ids and types integers [L]; returns int16 [L, H], exact since the codes are -127..127 and
    a_t + a_p <= 258, with low tables 256. The segment embedding is folded into one position table
    a type.
    """
    positions = offset + np.arange(len(ids))
    token = embedding.token[ids].astype(np.int16)
    position = embedding.position[types, positions].astype(np.int16)
    x = embedding.token_factor * token + embedding.position_factor * position
    if embedding.token_low is not None and embedding.position_low is not None:
        x += embedding.token_low[ids]
        x += embedding.position_low[types, positions]
    return x

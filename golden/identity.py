"""Which integer model it is: a hash of everything that decides an answer.

Two models of one identity give the same logits to every sequence, on any number of lanes. Names of
labels, scales and the tokenizer are no part of it: they stand beside the integers.
"""

from hashlib import sha256

import numpy as np

from golden.model import Model
from golden.store import parts

IDENTITY_BYTES = 8


def identity_of(model: Model) -> bytes:
    """The first 8 bytes of the SHA-256 of every part of the model under its name.

    The names are those of quantized.json ("model") and quantized.npz, sorted. Of each comes the
    line "NAME VALUE", or, of an array, "NAME DTYPE SHAPE" with its bytes behind it, little-endian,
    the last index first. What is None is left out: a field that a model lacks changes nothing.
    """
    found = sha256()
    for name, value in sorted(parts(model), key=lambda part: part[0]):
        if isinstance(value, np.ndarray):
            little = value.astype(value.dtype.newbyteorder("<"), copy=False)
            found.update(f"{name} {value.dtype.name} {value.shape}\n".encode())
            found.update(little.tobytes())
        else:
            found.update(f"{name} {value}\n".encode())
    return found.digest()[:IDENTITY_BYTES]

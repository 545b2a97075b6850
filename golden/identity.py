"""Which integer model it is: a hash of everything that decides an answer.

Two models of one identity give the same logits to every sequence, on any number of lanes. Names of
labels, scales and the tokenizer are no part of it: they stand beside the integers.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from golden.model import Model

IDENTITY_BYTES = 8


def identity_of(model: Model) -> bytes:
    """The first 8 bytes of the SHA-256 of every integer of the model, each under its name.

    What is None is left out, so a field that a model does not have changes nothing.
    """
    found = sha256()
    for name, value in _parts("model", model):
        if isinstance(value, np.ndarray):
            little = value.astype(value.dtype.newbyteorder("<"), copy=False)
            found.update(f"{name} {value.dtype.name} {value.shape}\n".encode())
            found.update(little.tobytes())
        else:
            found.update(f"{name} {value}\n".encode())
    return found.digest()[:IDENTITY_BYTES]


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Arrays and plain values by dotted name, in the order of the fields."""
    if is_dataclass(value):
        for field in fields(value):
            yield from _parts(f"{name}.{field.name}", getattr(value, field.name))
    elif isinstance(value, tuple):
        for place, item in enumerate(value):
            yield from _parts(f"{name}.{place}", item)
    elif value is not None:
        yield name, value

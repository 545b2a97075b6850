"""The digits of the package scikit-learn, with a fixed split.

1,797 handwritten digits of 8 x 8 pixels by 13 people (Alpaydin and Kaynak, 1998). Within each
label, images are ordered by SHA-256 of the seed and their pixels; the first go to the test split,
the next to validation, the rest to train. Each split has that same order, so any prefix is a random
sample.
"""

import gzip
import hashlib
import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path

from cli.extras import how

import numpy as np
from numpy.typing import NDArray

from quant.texts.data_file import TextError

Images = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Images [n, height, width] and their labels [n]."""

LABELS = tuple("0123456789")

_SEED = 2026
_SPLITS: dict[str, tuple[int, int | None]] = {
    "train": (54, None),
    "validation": (36, 54),
    "test": (0, 36),
}
"""First and last of each label, in their order."""


def digits(split: str) -> Images:
    """The digits of one split: test 360, validation 180, train 1,257; ink is 255.

    Raises TextError for an unknown split, and where scikit-learn is not installed.
    """
    if split not in _SPLITS:
        raise TextError(f"no split named {split!r}: choose one of {', '.join(_SPLITS)}")
    images, labels = _digits()
    order = sorted(range(len(images)), key=lambda i: _hash(images[i]))
    of_label = [[i for i in order if labels[i] == label] for label in range(len(LABELS))]
    chosen = {i for some in of_label for i in some[slice(*_SPLITS[split])]}
    places = [i for i in order if i in chosen]
    return images[places], labels[places]


CORPORA: dict[str, Callable[[str], Images]] = {"digits": digits}


def _hash(image: NDArray[np.uint8]) -> bytes:
    return hashlib.sha256(f"{_SEED}:".encode() + image.tobytes()).digest()


@cache
def _digits() -> Images:
    """All digits, in the order of the file: 64 pixels and the label in each line."""
    spec = importlib.util.find_spec("sklearn")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    if not folders:
        raise TextError(f"the package scikit-learn is not installed: {how('sklearn')}")
    with gzip.open(Path(folders[0]) / "datasets" / "data" / "digits.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    images = np.rint(table[:, :-1] * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
    return images, table[:, -1].astype(np.int64)

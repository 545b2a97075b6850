"""What `train.finetune --data` names: texts, words or images, each with its target.

A target is a class, the numbers of a regression, which of several labels hold, or the class of each
word. The sets that have a name are made of the two corpora of `quant.texts.corpora`, and of the
digits of scikit-learn; all others are files.
"""

import argparse
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from cli import files
from cli.errors import UserError

import numpy as np

from quant.images.corpora import LABELS, digits
from quant.model.spec import CLASSIFICATION, MULTI_LABEL, REGRESSION, TOKEN_CLASSIFICATION
from quant.texts.corpora import CORPORA, imdb
from quant.texts.data_file import Review, label_names, layout_of, read_texts

IMAGES = "images"
TASKS = (CLASSIFICATION, MULTI_LABEL, REGRESSION, TOKEN_CLASSIFICATION)  # of the texts in a file
SPLITS = ("train", "validation", "test")
SENTIMENT = ("negative", "positive")


class Example(NamedTuple):
    """A text, its words or an image, and the target: an index, numbers, or a tag for each word."""

    content: Any
    target: Any


Examples: TypeAlias = list[Example]


@dataclass(frozen=True)
class Data:
    """The examples of each split, and the names of the model's outputs."""

    task: str
    names: tuple[str, ...]
    splits: dict[str, Examples]


def sentiments(source: str) -> Callable[[str], Examples]:
    """A split of a corpus, each text with its sentiment."""
    return lambda split: [Example(review.text, review.label) for review in CORPORA[source](split)]


def _both(target: Callable[[str, int, int], Any]) -> Callable[[str], Examples]:
    """Texts of both corpora in turn, the target by text, sentiment and place of the corpus."""

    def split_of(split: str) -> Examples:
        parts = [
            [Example(text, target(text, label, place)) for text, label in sentiments(source)(split)]
            for place, source in enumerate(CORPORA)
        ]
        return [example for pair in zip(*parts) for example in pair]

    return split_of


_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
_OPENING = frozenset("\"'“‘«(:;-*/")
_FIRST_PERSON = re.compile(r"I(['’]\w+)?")


def _named(split: str) -> Examples:
    """The first two sentences of 6 to 60 words of each IMDB review, with the words in names."""
    found = []
    for review in imdb(split):
        words = (tuple(_WORD.findall(part)) for part in _SENTENCE.split(review.text))
        found += [Example(part, names_of(part)) for part in words if 6 <= len(part) <= 60][:2]
    return found


def names_of(words: Sequence[str]) -> tuple[int | None, ...]:
    """The tag of each word of a sentence, 0 O, 1 B-NAME or 2 I-NAME; None where the case says none.

    A word is one of a name where the reviewer wrote it with a capital inside a sentence, which an
    uncased model does not see. The first word of a sentence or quotation, and capitals throughout,
    say nothing.
    """
    tags: list[int | None] = []
    for place, word in enumerate(words):
        if _FIRST_PERSON.fullmatch(word) or not word[0].isupper():
            tags.append(0)
        elif place == 0 or words[place - 1] in _OPENING or word.isupper():
            tags.append(None)
        else:
            tags.append(1 if tags[-1] in (0, None) else 2)
    return tuple(tags)


_Set: TypeAlias = tuple[str, tuple[str, ...], Callable[[str], Examples]]
BUILT_IN: dict[str, _Set] = {
    **{name: (CLASSIFICATION, SENTIMENT, sentiments(name)) for name in CORPORA},
    "four-classes": (
        CLASSIFICATION,
        tuple(f"{source} {name}" for source in CORPORA for name in SENTIMENT),
        _both(lambda _, label, place: 2 * place + label),
    ),
    "two-labels": (
        MULTI_LABEL,
        ("positive", "review"),
        _both(lambda _, label, place: (float(label), float(place == 0))),
    ),
    "two-numbers": (
        REGRESSION,
        ("sentiment", "words"),
        _both(lambda text, label, _: (2.0 * label - 1, float(min(100, len(text.split()))))),
    ),
    "names": (TOKEN_CLASSIFICATION, ("O", "B-NAME", "I-NAME"), _named),
    "digits": (IMAGES, LABELS, lambda split: [Example(x, int(y)) for x, y in zip(*digits(split))]),
}
"""The task, the names of the outputs and the splits of each set."""


def read(options: argparse.Namespace) -> Data:
    """The examples that the options name, every split of them with targets."""
    if options.data in BUILT_IN:
        task, names, split_of = BUILT_IN[options.data]
        data = Data(task, names, {split: split_of(split) for split in SPLITS})
    elif Path(options.data).is_file():
        data = _of_files(options)
    else:
        raise UserError(
            f"no data set or file named {options.data!r}: give {', '.join(BUILT_IN)}, or the path "
            "of a .csv, .tsv, .jsonl or .parquet file"
        )
    if options.limit:
        data.splits["train"] = data.splits["train"][: options.limit]
    if len(data.names) < 2 and data.task in (CLASSIFICATION, TOKEN_CLASSIFICATION):
        raise UserError(f"{options.data} has one label only ({data.names[0]}): give two or more")
    return data


def _of_files(options: argparse.Namespace) -> Data:
    layout, task = layout_of(options), options.task
    names = tuple(name.strip() for name in options.names.split(",")) if options.names else ()
    if not names and task == CLASSIFICATION:
        names = tuple(label_names(options.data, layout=layout))
    if not names or not all(names) or len(set(names)) < len(names):
        raise UserError(f"--task {task} needs --names A,B,... of the outputs, each another one")
    paths = {"train": options.data, "validation": options.validation, "test": options.test}
    splits = {
        split: [
            _example(review, task, path)
            for review in read_texts(path, names=names, layout=layout, task=task)
        ]
        for split, path in paths.items()
        if path is not None
    }
    for split, found in splits.items():
        tags = (tag for x in found if task == TOKEN_CLASSIFICATION for tag in x.target)
        if task == TOKEN_CLASSIFICATION and all(tag is None for tag in tags):
            raise UserError(f"{paths[split]}: no word has a tag, so nothing can be learned of it")
    if "validation" not in splits:
        every = splits["train"]
        order = np.random.default_rng(options.seed).permutation(len(every))
        last = max(1, round(len(every) / 10))
        splits["validation"] = [every[i] for i in order[:last]]
        splits["train"] = [every[i] for i in order[last:]]
    if not splits["train"]:
        raise UserError(f"{options.data} has one text: two or more are needed")
    return Data(task, names, splits)


def _example(review: Review, task: str, path: str) -> Example:
    if review.pair is not None:
        raise UserError(
            f"{path}: a text is a pair, training takes single texts: rename the column of the "
            "second to train on the first alone"
        )
    if task == TOKEN_CLASSIFICATION:
        return Example(review.words or (), review.tags)
    target = review.label if task == CLASSIFICATION else review.targets
    if target is None:
        raise UserError(f"{path}: a text has no label, each needs one")
    return Example(review.text, target)


def write_splits(data: Data, folder: Path) -> None:
    """A .jsonl file of each split, as `quant.evaluate` reads it."""

    def row(content: Any, target: Any) -> dict[str, Any]:
        if data.task == TOKEN_CLASSIFICATION:
            tags = [None if tag is None else data.names[tag] for tag in target]
            return {"tokens": list(content), "ner_tags": tags}
        if data.task == MULTI_LABEL:
            target = [name for name, there in zip(data.names, target) if there]
        elif data.task == CLASSIFICATION:
            target = data.names[target]
        return {"text": content, "label": target}

    for split, found in data.splits.items():
        lines = [json.dumps(row(*example), ensure_ascii=False) for example in found]
        files.write(folder / f"{split}.jsonl", "\n".join(lines) + "\n")

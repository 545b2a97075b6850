"""The texts of a file through the integer model: a line of JSON each, in bounded memory."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from cli import files

from golden import fast
from golden.model import Model
from quant import float_model
from quant.data_file import Review, TextError
from quant.tokenizer import InputError, Tokens

CHUNK = 256
"""Texts in memory at a time."""

Encode = Callable[[str, str | None], Tokens]


@dataclass
class Counts:
    """What the lines of a file came to.

    classes: texts by the class they were given; right: of the `labelled` ones.
    """

    texts: int = 0
    tokens: int = 0
    cut: int = 0
    labelled: int = 0
    right: int = 0
    classes: Counter[str] = field(default_factory=Counter)

    def add(self, line: dict[str, Any]) -> None:
        self.texts += 1
        self.tokens += line["tokens"]
        self.cut += line["dropped_tokens"] > 0
        self.classes[line["class"]] += 1
        if "label" in line:
            self.labelled += 1
            self.right += line["label"] == line["class"]

    def to_json(self) -> dict[str, Any]:
        accuracy = self.right / self.labelled if self.labelled else None
        counted = {"texts": self.texts, "tokens": self.tokens, "cut_texts": self.cut}
        return counted | {
            "classes": dict(sorted(self.classes.items())),
            "labelled_texts": self.labelled,
            "accuracy": accuracy,
        }

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {count:,}" for name, count in sorted(self.classes.items()))
        said = f"{self.texts:,} texts, {self.tokens:,} tokens ({self.cut:,} texts cut): {shares}"
        if self.labelled:
            said += f"; accuracy {self.right / self.labelled:.2%} of {self.labelled:,} with a label"
        return said


def classified(
    model: Model,
    labels: tuple[str, ...],
    logit_scale: float,
    encode: Encode,
    reviews: Iterable[Review],
) -> Iterator[dict[str, Any]]:
    """A JSON object for each text, in order: class, probabilities, integer logits, tokens.

    The integers are golden's, bit for bit, by the compiled engine. A label is an index of `labels`.

    Raises
    ------
    TextError
        A text has no token; it names the text by its number.
    """
    number, left = 0, iter(reviews)
    while chunk := list(islice(left, CHUNK)):
        encoded = []
        for review in chunk:
            number += 1
            try:
                encoded.append(encode(review.text, review.pair))
            except InputError as error:
                raise TextError(f"text {number}: {error}") from None
        codes = fast.run_batch(model, [t.ids for t in encoded], [t.types for t in encoded])
        probabilities = float_model.softmax(codes * logit_scale)
        for review, tokens, row, shares in zip(chunk, encoded, codes, probabilities):
            line: dict[str, Any] = {"text": review.text}
            if review.pair is not None:
                line["pair"] = review.pair
            if review.label is not None:
                line["label"] = labels[review.label]
            yield line | {
                "class": labels[int(row.argmax())],
                "probabilities": dict(zip(labels, map(float, shares))),
                "integer_logits": dict(zip(labels, map(int, row))),
                "tokens": len(tokens.ids),
                "dropped_tokens": tokens.dropped,
            }


def write_lines(lines: Iterable[dict[str, Any]], out: Path | None) -> Counts:
    """Write a line of JSON for each, to `out` or standard output; `out` appears whole or not."""
    counts = Counts()
    with ExitStack() as stack:
        file = sys.stdout
        if out is not None:
            temporary = stack.enter_context(files.replacing(out))
            file = stack.enter_context(temporary.open("w", encoding="utf-8"))
        for line in lines:
            counts.add(line)
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return counts

"""The texts of a file through the integer model: a line of JSON each, in bounded memory."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from cli import files

from golden import fast
from golden.model import Model
from quant.foreign.tokenizer import InputError, Tokens
from quant.measure.answers import answer, numbers, right_of, texts_of
from quant.model.spec import (
    CLASSIFICATION,
    MULTI_LABEL,
    QUESTION_ANSWERING,
    REGRESSION,
    TOKEN_CLASSIFICATION,
    EncoderSpec,
    Floats,
)
from quant.texts.data_file import Content, Review, TextError

CHUNK = 256
"""Texts in memory at a time."""

Encode = Callable[[Content, str | None], Tokens]


@dataclass
class Counts:
    """What the lines of a file came to.

    classes: texts by the class they were given, or by each of their labels; right: of the
    `labelled` ones, with every label. Of a regression sums: of each output, and of the squared
    errors of the labelled texts. Where every token has a class, these three count words.
    """

    task: str = CLASSIFICATION
    texts: int = 0
    tokens: int = 0
    cut: int = 0
    labelled: int = 0
    right: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    sums: dict[str, float] = field(default_factory=dict)
    squares: dict[str, float] = field(default_factory=dict)

    def add(self, line: dict[str, Any]) -> None:
        self.texts += 1
        self.tokens += line["tokens"]
        self.cut += line["dropped_tokens"] > 0
        if self.task == TOKEN_CLASSIFICATION:
            self.classes.update(line["labels"])
            right = line.get("label", [None] * len(line["labels"]))
            self.labelled += sum(one is not None for one in right)
            self.right += sum(a == b for a, b in zip(right, line["labels"], strict=True))
            return
        self.labelled += "label" in line
        if self.task == REGRESSION:
            for name, value in line["values"].items():
                self.sums[name] = self.sums.get(name, 0.0) + value
                if "label" in line:
                    square = (value - line["label"][name]) ** 2
                    self.squares[name] = self.squares.get(name, 0.0) + square
            return
        if self.task == QUESTION_ANSWERING:
            self.classes["answered"] += 1
            return
        given = line["labels"] if self.task == MULTI_LABEL else line["class"]
        self.classes.update(given if self.task == MULTI_LABEL else [given])
        self.right += "label" in line and line["label"] == given

    @property
    def means(self) -> dict[str, float]:
        return {name: total / self.texts for name, total in self.sums.items()}

    @property
    def errors(self) -> dict[str, float]:
        """Mean squared, over the texts with a label."""
        return {name: total / self.labelled for name, total in self.squares.items()}

    def to_json(self) -> dict[str, Any]:
        counted = {"texts": self.texts, "tokens": self.tokens, "cut_texts": self.cut}
        if self.task == REGRESSION:
            found: dict[str, Any] = {"means": self.means, "mean_squared_errors": self.errors}
            return counted | {"labelled_texts": self.labelled} | found
        accuracy = self.right / self.labelled if self.labelled else None
        of_words = self.task == TOKEN_CLASSIFICATION
        return counted | {
            "classes": dict(sorted(self.classes.items())),
            "labelled_words" if of_words else "labelled_texts": self.labelled,
            "accuracy": accuracy,
        }

    def __str__(self) -> str:
        said = f"{self.texts:,} texts, {self.tokens:,} tokens ({self.cut:,} texts cut): "
        if self.task == REGRESSION:
            said += "mean " + ", ".join(f"{name} {mean:.4f}" for name, mean in self.means.items())
            if self.labelled:
                errors = ", ".join(f"{name} {error:.4f}" for name, error in self.errors.items())
                said += f"; mean squared error {errors} of {self.labelled:,} with a number"
            return said
        said += ", ".join(f"{name} {count:,}" for name, count in sorted(self.classes.items()))
        if self.labelled:
            what = "every label right" if self.task == MULTI_LABEL else "accuracy"
            unit = "words " if self.task == TOKEN_CLASSIFICATION else ""
            share = self.right / self.labelled
            said += f"; {what} {share:.2%} of {self.labelled:,} {unit}with a label"
        return said


def classified(
    spec: EncoderSpec,
    logit_scale: float | Floats,
    encode: Encode,
    placed: Callable[[Sequence[Tokens]], tuple[Model, list[Tokens]]],
    reviews: Iterable[Review],
) -> Iterator[dict[str, Any]]:
    """A JSON object for each text, in order: class, probabilities, integer logits, tokens.

    That of an empty text has the text alone.

    In place of class and probabilities labels, values or words, as the task has it. The integers
    are golden's, bit for bit, by the compiled engine.

    encode
        Makes the tokens of a text and its pair.
    placed
        Gives the model that runs some texts, and the texts as it takes them.

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
            if not review.present:
                continue
            try:
                encoded.append(encode(review.content, review.pair))
            except InputError as error:
                raise TextError(f"text {number}: {error}") from None
        rows: Iterator[tuple[Tokens, Any]] = iter(())
        if encoded:
            model, encoded = placed(encoded)
            codes = fast.run_batch(model, [t.ids for t in encoded], [t.types for t in encoded])
            rows = zip(encoded, texts_of(spec, codes, encoded))
        for review in chunk:
            line: dict[str, Any] = {"text": review.text}
            if review.pair is not None:
                line["pair"] = review.pair
            if not review.present:
                yield line
                continue
            tokens, row = next(rows)
            if (right := right_of(spec, review, tokens)) is not None:
                line["label"] = right
            given = answer(spec, tokens, row * logit_scale, row)
            given.pop("logits", None)
            yield (
                line
                | given
                | {
                    "integer_logits": numbers(spec, tokens, row),
                    "tokens": len(tokens.ids),
                    "dropped_tokens": tokens.dropped,
                }
            )


def write_lines(lines: Iterable[dict[str, Any]], out: Path | None, spec: EncoderSpec) -> Counts:
    """Write a line of JSON for each, to `out` or standard output; `out` appears whole or not."""
    counts = Counts(spec.task)
    with ExitStack() as stack:
        file = sys.stdout
        if out is not None:
            temporary = stack.enter_context(files.replacing(out))
            file = stack.enter_context(temporary.open("w", encoding="utf-8"))
        for line in lines:
            if "tokens" in line:
                counts.add(line)
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return counts

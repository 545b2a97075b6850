"""`python -m quant.classify "That movie was terrible!"`: one text through golden and float.

Prints what the integer model says (a class, several labels, numbers, or a class for each word), its
integer logits and their probabilities, and the float model's beside them. With --batch all texts of
a file, through the integer model alone.
"""

import argparse
import io
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.options import Parser, add_json, add_model, add_quantized, add_tokens
from cli.progress import progress

import numpy as np
from numpy.typing import NDArray

from quant import reader
from quant.calibrate import MAX_TOKENS, calibrated
from quant.foreign.tokenizer import InputError, Tokens
from quant.images import data as images
from quant.measure.tasks import Task, Values, answer, task_of
from quant.model.spec import LABELLED, QUESTION_ANSWERING, TEXTS
from quant.quantized_model import QuantizedModel
from quant.texts.data_file import Review, TextError, add_columns, layout_of, until_a_text

CHUNK = 256
"""Texts of --batch in memory at a time."""

EXAMPLES = """\
examples:
  python -m quant.classify "That movie was terrible!"
  python -m quant.classify "A film for everyone." --json build/classification.json
  python -m quant.classify --pair "Is it any good?" "Not at all." --model my-model
  python -m quant.classify - < review.txt
  python -m quant.classify --batch reviews.csv -o build/classes.jsonl
"""


class Classifier(QuantizedModel):
    """A quantized model that gives a text a class, several labels or numbers, or words a class."""

    TASKS = (*LABELLED, QUESTION_ANSWERING)

    def golden(self, tokens: Tokens, codes: NDArray[Any], logits: NDArray[Any]) -> Values:
        """The integer model's answer, and the integers themselves."""
        integers = task_of(self.spec).numbers(self.spec, tokens, codes)
        return answer(self.spec, tokens, logits, codes) | {"integer_logits": integers}

    def classify(self, tokens: Tokens) -> Values:
        """The answers of both models to one text; "float" is None without the checkpoint."""
        found = self.run([tokens])
        logits = (found.integers[0] * self.logit_scale).astype(np.float32)
        return {
            "tokens": len(tokens.ids),
            "dropped_tokens": tokens.dropped,
            "golden": self.golden(tokens, found.integers[0], logits),
            "float": answer(self.spec, tokens, found.floats[0]) if found.floats else None,
        }

    def shown(self, values: Values) -> str:
        """What `classify` gives, as the command prints it."""
        task, golden, floats = task_of(self.spec), values["golden"], values["float"]
        cut = f" ({values['dropped_tokens']} more cut)" if values["dropped_tokens"] else ""
        lines = [f"{task.said(golden)}   from {values['tokens']} tokens{cut}"]
        lines += task.table(self.spec, golden, floats)
        if floats and not task.has_units and task.said(floats) != task.said(golden):
            lines.append(f"the float model says {task.said(floats)}")
        return "\n".join(lines)

    def lines(self, reviews: Iterable[Review], max_tokens: int = MAX_TOKENS) -> Iterator[Values]:
        """A JSON object for each text, in order; that of an empty text has the text alone.

        Raises TextError, which names the text by its number, where one has no token.
        """
        task, first, left = task_of(self.spec), 1, iter(reviews)
        while chunk := list(islice(left, CHUNK)):
            encoded = []
            for number, review in enumerate(chunk, first):
                try:
                    if review.present:
                        encoded.append(self.tokens(review.content, review.pair, max_tokens))
                except InputError as error:
                    raise TextError(f"text {number}: {error}") from None
            first += len(chunk)
            rows = iter(zip(encoded, self.run(encoded, floats=0).integers if encoded else ()))
            for review in chunk:
                line: Values = {"text": review.text}
                line |= {} if review.pair is None else {"pair": review.pair}
                if review.present:
                    tokens, codes = next(rows)
                    if (right := task.label(self.spec, review, tokens)) is not None:
                        line["label"] = right
                    line |= self.golden(tokens, codes, codes * self.logit_scale)
                    line.pop("logits", None)
                    line |= {"tokens": len(tokens.ids), "dropped_tokens": tokens.dropped}
                yield line


@dataclass
class Counts:
    """What the lines of a file came to.

    classes: texts by the class they were given, or by each of their labels; right: those of the
    `labelled` ones with every label right. Of numbers sums: of each output, and of the squared
    errors of the labelled texts. Where every token has a class, these count words.
    """

    task: Task
    texts: int = 0
    tokens: int = 0
    cut: int = 0
    labelled: int = 0
    right: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    sums: dict[str, float] = field(default_factory=dict)
    squares: dict[str, float] = field(default_factory=dict)

    def add(self, line: Values) -> None:
        self.texts += 1
        self.tokens += line["tokens"]
        self.cut += line["dropped_tokens"] > 0
        said, right = line[self.task.key], line.get("label")
        pairs = [(right, said)] if self.task.row == TEXTS else zip(right or [], said)
        for label, one in pairs:
            self.labelled += label is not None
            self.right += label == one
        if not self.task.has_units:
            names = ["answered"] if "answer" in line else said
            self.classes.update(names if isinstance(names, list) else [names])
            return
        for name, value in said.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            if right is not None:
                self.squares[name] = self.squares.get(name, 0.0) + (value - right[name]) ** 2

    def to_json(self) -> Values:
        values: Values = {"texts": self.texts, "tokens": self.tokens, "cut_texts": self.cut}
        labelled = {f"labelled_{self.task.row}": self.labelled}
        if self.task.has_units:
            means = {name: total / self.texts for name, total in self.sums.items()}
            errors = {name: total / self.labelled for name, total in self.squares.items()}
            return values | labelled | {"means": means, "mean_squared_errors": errors}
        accuracy = self.right / self.labelled if self.labelled else None
        classes = dict(sorted(self.classes.items()))
        return values | {"classes": classes} | labelled | {"accuracy": accuracy}

    def __str__(self) -> str:
        values = self.to_json()
        lines = f"{self.texts:,} texts, {self.tokens:,} tokens ({self.cut:,} texts cut): "
        if self.task.has_units:
            means, errors = (
                ", ".join(f"{name} {value:.4f}" for name, value in values[key].items())
                for key in ("means", "mean_squared_errors")
            )
            of = f"; mean squared error {errors} of {self.labelled:,} with a number"
            return f"{lines}mean {means}{of if self.labelled else ''}"
        lines += ", ".join(f"{name} {count:,}" for name, count in values["classes"].items())
        if self.labelled:
            unit = "" if self.task.row == TEXTS else f"{self.task.row} "
            share = f"{self.task.right} {values['accuracy']:.2%}"
            lines += f"; {share} of {self.labelled:,} {unit}with a label"
        return lines


def parser() -> Parser:
    result = Parser(
        "quant.classify",
        "Classify a text with the integer model and the float model beside it.",
        EXAMPLES,
    )
    result.add_argument(
        "text",
        nargs="?",
        help="the text, or - to read it from standard input; of a model of images or rows the file",
    )
    result.add_argument("--pair", metavar="TEXT", help="a second text, for models trained on pairs")
    result.add_argument(
        "--batch",
        type=Path,
        metavar="DIR|FILE",
        help="instead of a text: a .csv, .tsv, .jsonl, .txt or .parquet file of any length; for "
        "a model with a class for every token also .conll; of images a folder or a table; "
        "of rows a folder or a table",
    )
    result.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="FILE",
        help="where --batch writes a line of JSON for each text (default: standard output)",
    )
    add_model(result, default=None)
    add_quantized(result)
    add_tokens(result, MAX_TOKENS)
    add_json(result)
    add_columns(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: classify_command(parser().parse_args(arguments)))


def read_standard_input() -> str:
    """All of it as UTF-8; a byte that is not stays visible as a surrogate, as in an argument."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    return sys.stdin.read()


def check_arguments(options: argparse.Namespace) -> None:
    """Raises UserError unless there is either a text or a file of them."""
    if (options.text is None) == (options.batch is None):
        raise UserError("give either a text or --batch FILE")
    if options.batch is not None and options.pair is not None:
        raise UserError("--pair belongs to one text: in a file give a column of second texts")
    if options.batch and options.out and options.out.resolve() == options.batch.resolve():
        raise UserError(f"--out {options.out} is the file that is read: name another one")
    if options.batch is None and options.out is not None:
        raise UserError("--out belongs to --batch: --json writes what is said of one text")


def classify_command(options: argparse.Namespace) -> int:
    check_arguments(options)
    if options.batch is not None:
        return classify_file(options)
    text = read_standard_input() if options.text == "-" else options.text
    classifier = Classifier.load(*calibrated(options, Classifier.TASKS))
    result = classifier.classify(classifier.tokens(text, options.pair, options.tokens))
    print(classifier.shown(result))
    if options.json:
        files.write_json(options.json, result)
    return 0


def classify_file(options: argparse.Namespace) -> int:
    """Every text of --batch; the counts go to stderr where the lines go to standard output."""
    spec, _ = reader.of_options(options, Classifier.TASKS)
    reviews = images.stream(
        options.batch,
        inputs=spec.inputs,
        names=spec.labels,
        layout=layout_of(options),
        task=spec.task,
        empty=True,
    )
    before = list(until_a_text(reviews, str(options.batch)))
    classifier = Classifier.load(*calibrated(options, Classifier.TASKS))
    counts = Counts(task_of(spec))
    with ExitStack() as stack:
        file = sys.stdout
        if options.out is not None:
            temporary = stack.enter_context(files.replacing(options.out))
            file = stack.enter_context(temporary.open("w", encoding="utf-8"))
        shown = progress(chain(before, reviews), "classifying")
        for line in classifier.lines(shown, options.tokens):
            if "tokens" in line:
                counts.add(line)
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    print(counts, file=sys.stderr if options.out is None else sys.stdout)
    if options.json:
        files.write_json(options.json, counts.to_json())
    return 0


if __name__ == "__main__":
    sys.exit(main())

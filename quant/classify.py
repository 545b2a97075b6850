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
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.options import Parser, add_model
from cli.progress import progress

import numpy as np

from quant import reader
from quant.foreign.tokenizer import Tokens
from quant.images import data as images
from quant.measure.metrics import shown
from quant.measure.tasks import Array, Values, answer, task_of
from quant.model.spec import LABELLED, QUESTION_ANSWERING, TEXTS, EncoderSpec
from quant.quantized_model import Predicted, QuantizedModel, add_options
from quant.texts.data_file import layout_of

TASKS = (*LABELLED, QUESTION_ANSWERING)

EXAMPLES = """\
examples:
  python -m quant.classify "That movie was terrible!"
  python -m quant.classify "A film for everyone." --json build/classification.json
  python -m quant.classify --pair "Is it any good?" "Not at all." --model my-model
  python -m quant.classify - < review.txt
  python -m quant.classify --batch reviews.csv -o build/classes.jsonl
"""


def golden(model: QuantizedModel, tokens: Tokens, codes: Array, logits: Array) -> Values:
    """The integer model's answer to a text, and the integers themselves."""
    integers = task_of(model.spec).numbers(model.spec, tokens, codes)
    return answer(model.spec, tokens, logits, codes) | {"integer_logits": integers}


def classify(model: QuantizedModel, tokens: Tokens) -> Values:
    """The answers of both models to one text; "float" is None without the checkpoint."""
    found = model.run([tokens])
    logits = (found.integers[0] * model.logit_scale).astype(np.float32)
    return {
        "tokens": len(tokens.ids),
        "dropped_tokens": tokens.dropped,
        "golden": golden(model, tokens, found.integers[0], logits),
        "float": answer(model.spec, tokens, found.floats[0]) if found.floats else None,
    }


def lines(model: QuantizedModel, predicted: Iterable[Predicted]) -> Iterator[Values]:
    """A JSON object for each text, in order; that of an empty text has the text alone."""
    for one in predicted:
        line = one.to_json()
        if one.tokens is not None and one.codes is not None:
            right = task_of(model.spec).label(model.spec, one.review, one.tokens)
            line |= {} if right is None else {"label": right}
            line |= golden(model, one.tokens, one.codes, one.codes * model.logit_scale)
            line.pop("logits", None)
        yield line


class Counts:
    """What the lines of a file came to; those of empty texts do not count.

    Of classes and labels: how many texts (or words, where every token has a class) were given each,
    and the share of those with a label that are wholly right. Of numbers the mean of each output,
    and its mean squared error.
    """

    def __init__(self, spec: EncoderSpec) -> None:
        self.spec, self.task = spec, task_of(spec)
        self.counts, self.classes = Counter[str](), Counter[str]()
        self.sums = np.zeros((2, len(spec.labels)))

    def add(self, line: Values) -> None:
        if "tokens" not in line:
            return
        said, right = line[self.task.key], line.get("label")
        pairs = [(right, said)] if self.task.row == TEXTS else [*zip(right or [], said)]
        self.counts["texts"] += 1
        self.counts["tokens"] += line["tokens"]
        self.counts["cut"] += line["dropped_tokens"] > 0
        self.counts["labelled"] += sum(label is not None for label, _ in pairs)
        self.counts["right"] += sum(label == one for label, one in pairs)
        if self.task.has_units:
            numbers = np.array([*said.values()])
            self.sums[0] += numbers
            self.sums[1] += 0 if right is None else (numbers - [*right.values()]) ** 2
        else:
            names = "answered" if "answer" in line else said
            self.classes.update(names if isinstance(names, list) else [names])

    def to_json(self) -> Values:
        counts, labelled = self.counts, self.counts["labelled"]
        values = {name: counts[name] for name in ("texts", "tokens")} | {"cut_texts": counts["cut"]}
        values |= {f"labelled_{self.task.row}": labelled}
        if not self.task.has_units:
            accuracy = counts["right"] / labelled if labelled else None
            return values | {"classes": dict(sorted(self.classes.items())), "accuracy": accuracy}
        means, errors = (
            dict(zip(self.spec.labels, (row / number).tolist())) if number else {}
            for row, number in zip(self.sums, (counts["texts"], labelled))
        )
        return values | {"means": means, "mean_squared_errors": errors}


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
    add_options(result)
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
    _, model = QuantizedModel.of_options(options, TASKS)
    result = classify(model, model.tokens(text, options.pair, options.tokens))
    said = task_of(model.spec).said(result["golden"])
    model.finish(result, options.json, f"{said}\n{shown(result)}")
    return 0


def classify_file(options: argparse.Namespace) -> int:
    """Every text of --batch; the counts go to stderr where the lines go to standard output."""
    spec, _ = reader.of_options(options, TASKS)
    how: dict[str, Any] = {"names": spec.labels, "layout": layout_of(options), "task": spec.task}
    stream = images.stream(spec.inputs, options.batch, empty=True, **how)
    reviews = progress(stream, "classifying")
    _, model = QuantizedModel.of_options(options, TASKS)
    counts = Counts(spec)
    with ExitStack() as stack:
        file = sys.stdout
        if options.out is not None:
            temporary = stack.enter_context(files.replacing(options.out))
            file = stack.enter_context(temporary.open("w", encoding="utf-8"))
        for line in lines(model, model.predict(reviews, options.tokens)):
            counts.add(line)
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    printed = sys.stderr if options.out is None else sys.stdout
    model.finish(counts.to_json(), options.json, file=printed)
    return 0


if __name__ == "__main__":
    sys.exit(main())

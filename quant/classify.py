"""`python -m quant.classify "That movie was terrible!"`: one text through golden and float.

Prints what the integer model says (a class, several labels, numbers, or a class for each word), its
integer logits and their probabilities, and the float model's beside them. With --batch all texts of
a file, through the integer model alone.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.options import Parser, add_model
from cli.progress import progress

import numpy as np

from quant import which
from quant.foreign.tokenizer import Tokens, encode
from quant.images import data as images
from quant.measure.metrics import shown
from quant.measure.tasks import Array, Values, task_of
from quant.model.spec import LABELLED, QUESTION_ANSWERING, TEXTS
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
    task, spec = task_of(model.spec), model.spec
    integers = {"integer_logits": task.numbers(spec, tokens, codes)}
    return task.answer(spec, tokens, logits, codes) | integers


def classify(model: QuantizedModel, tokens: Tokens) -> Values:
    """The answers of both models to one text; "float" is None without the checkpoint."""
    (codes,), exact = model.run([tokens])
    answer = task_of(model.spec).answer
    values: Values = {
        "golden": golden(model, tokens, codes, (codes * model.logit_scale).astype(np.float32)),
        "float": answer(model.spec, tokens, exact[0], exact[0]) if exact else None,
    }
    return {"tokens": len(tokens.ids), "dropped_tokens": tokens.dropped} | values


def classify_all(model: QuantizedModel, predicted: Iterable[Predicted], file: TextIO) -> Values:
    """Write a line of JSON for each text, with the text alone for an empty one; what they came to.

    Of classes and labels: how many texts (or words, where every token has a class) were given each,
    and the share of those with a label that are wholly right. Of numbers the mean of each output,
    and its mean squared error.
    """
    spec, task = model.spec, task_of(model.spec)
    counts, classes = Counter[str](), Counter[str]()
    sums, errors = np.zeros((2, len(spec.labels)))
    for one in predicted:
        line = one.to_json()
        if one.tokens is not None and one.codes is not None:
            right = task.label(spec, one.review, one.tokens)
            line |= {} if right is None else {"label": right}
            line |= golden(model, one.tokens, one.codes, one.codes * model.logit_scale)
            line.pop("logits", None)
            said = line[task.key]
            pairs = [(right, said)] if task.row == TEXTS else [*zip(right or [], said)]
            counts.update(texts=1, tokens=line["tokens"], cut_texts=line["dropped_tokens"] > 0)
            counts["labelled"] += sum(label is not None for label, _ in pairs)
            counts["right"] += sum(label == given for label, given in pairs)
            if task.has_units:
                numbers = np.array([*said.values()])
                sums += numbers
                errors += 0 if right is None else (numbers - [*right.values()]) ** 2
            else:
                names = "answered" if "answer" in line else said
                classes.update(names if isinstance(names, list) else [names])
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
    labelled = counts["labelled"]
    values: Values = {name: counts[name] for name in ("texts", "tokens", "cut_texts")}
    values |= {f"labelled_{task.row}": labelled}
    if not task.has_units:
        accuracy = counts["right"] / labelled if labelled else None
        return values | {"classes": dict(sorted(classes.items())), "accuracy": accuracy}
    means = dict(zip(spec.labels, (sums / counts["texts"]).tolist()))
    squares = dict(zip(spec.labels, (errors / labelled).tolist())) if labelled else {}
    return values | {"means": means, "mean_squared_errors": squares}


def parser() -> Parser:
    what = "Classify a text with the integer model and the float model beside it."
    result = Parser("quant.classify", what, EXAMPLES)
    what = "the text, or - to read it from standard input; of a model of images or rows the file"
    result.add_argument("text", nargs="?", help=what)
    result.add_argument("--pair", metavar="TEXT", help="a second text, for models trained on pairs")
    what = (
        "instead of a text: a .csv, .tsv, .jsonl, .txt or .parquet file of any length; for a model "
        "with a class for every token also .conll; of images a folder or a table; of rows a folder "
        "or a table"
    )
    result.add_argument("--batch", type=Path, metavar="DIR|FILE", help=what)
    what = "where --batch writes a line of JSON for each text (default: standard output)"
    result.add_argument("-o", "--out", type=Path, metavar="FILE", help=what)
    add_model(result, default=None)
    add_options(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: classify_command(parser().parse_args(arguments)))


def read_standard_input() -> str:
    """All of it as UTF-8; a byte that is not stays visible as a surrogate, as in an argument."""
    return TextIOWrapper(sys.stdin.buffer, "utf-8", "surrogateescape").read()


def classify_command(options: argparse.Namespace) -> None:
    if (options.text is None) == (options.batch is None):
        raise UserError("give either a text or --batch FILE")
    if options.batch is not None and options.pair is not None:
        raise UserError("--pair belongs to one text: in a file give a column of second texts")
    if options.batch and options.out and options.out.resolve() == options.batch.resolve():
        raise UserError(f"--out {options.out} is the file that is read: name another one")
    if options.batch is None and options.out is not None:
        raise UserError("--out belongs to --batch: --json writes what is said of one text")
    if options.batch is not None:
        return classify_file(options)
    text = read_standard_input() if options.text == "-" else options.text
    # Refused before a calibration.
    encode(*which.of_options(options, TASKS), text, options.pair, options.tokens)
    _, model = QuantizedModel.of_options(options, TASKS)
    result = classify(model, model.tokens(text, options.pair, options.tokens))
    said = task_of(model.spec).said(result["golden"])
    model.finish(result, options.json, f"{said}\n{shown(result)}")


def classify_file(options: argparse.Namespace) -> None:
    """Every text of --batch; the counts go to stderr where the lines go to standard output."""
    spec, _ = which.of_options(options, TASKS)
    how: dict[str, Any] = {"names": spec.labels, "layout": layout_of(options), "task": spec.task}
    reviews = progress(images.stream(spec.inputs, options.batch, empty=True, **how), "classifying")
    _, model = QuantizedModel.of_options(options, TASKS)
    predicted = model.predict(reviews, options.tokens)
    if options.out is None:
        model.finish(classify_all(model, predicted, sys.stdout), options.json, file=sys.stderr)
        return
    with files.replacing(options.out) as temporary, temporary.open("w", encoding="utf-8") as file:
        found = classify_all(model, predicted, file)
    model.finish(found, options.json)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m quant.evaluate`: the integer model against the float one, and both against the labels.

Every text runs through both models, so that a difference between them is a paired observation; the
first of them run with a full trace, for the error of each tensor.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.journey import then
from cli.options import (
    Parser,
    add_dask,
    add_jobs,
    add_json,
    add_model,
    add_quantized,
    add_tokens,
    positive,
    whole,
)
from cli.progress import Bar, duration
from cli.words import counted
from cli.workers import each

import numpy as np
from numpy.typing import NDArray

from quant import reader
from quant.calibrate import DEFAULT_DATA, MAX_TOKENS, calibrated, default_data
from quant.classify import Classifier
from quant.foreign.tokenizer import Tokens
from quant.images import data as images
from quant.measure.tasks import UNCOUNTED, Evaluation, task_of
from quant.model.spec import LABELLED, TEXTS, EncoderSpec
from quant.quantized_model import run_share
from quant.texts.corpora import CORPORA, SPLITS
from quant.texts.data_file import Review, add_columns, layout_of

SHARE = 32
"""Texts of a worker at a time. The tensors are compared on the first share alone, so that their
errors are summed in one order."""
LISTED = 5
WIDTH = 40

EXAMPLES = """\
examples:
  python -m quant.evaluate
  python -m quant.evaluate --samples 1000 --json build/evaluation.json
  python -m quant.evaluate --dask tcp://head:8786
  python -m quant.evaluate --model my-model --data reviews.csv --tokens 128
"""


def evaluate(
    classifier: Classifier,
    texts: Sequence[Tokens],
    labels: NDArray[Any],
    *,
    jobs: int = 1,
    dask: str | None = None,
) -> Evaluation:
    """Both models on every text, and the labels of `Task.targets`.

    jobs and dask are those of `cli.workers.each`.
    """
    spec = classifier.require_checkpoint().spec
    cases = {
        f"text {first}": (texts[first : first + SHARE], 0 if first else SHARE)
        for first in range(0, len(texts), SHARE)
    }
    found = []
    says = f"evaluating float and golden: {counted(len(texts), spec.inputs)}"
    with Bar(says, len(texts), spec.inputs) as bar:
        for name, outputs in each(run_share, classifier, cases, jobs=jobs, dask=dask):
            found.append(outputs)
            bar.update(len(cases[name][0]))
    floats, integers = (
        np.vstack([row for outputs in found for row in getattr(outputs, name)])
        for name in ("floats", "integers")
    )
    words: dict[str, Any] = {}
    counts = labels != UNCOUNTED
    task = task_of(spec)
    if task.row != TEXTS:
        lengths = [len(tokens.ids) for tokens in texts]
        words = {
            "text": np.repeat(np.arange(len(texts)), lengths)[counts],
            "texts": len(texts),
            "cut": sum(len(tokens.begins) - len(tokens.kept) for tokens in texts),
        }
        floats, integers, labels = floats[counts], integers[counts], labels[counts]
    return Evaluation(
        names=spec.labels,
        float_logits=floats,
        integer_logits=integers,
        logit_scale=classifier.logit_scale,
        tokens=sum(len(tokens.ids) for tokens in texts),
        errors=found[0].errors,
        traced=min(SHARE, len(texts)),
        labels=labels,
        task=task,
        inputs=spec.inputs,
        function=spec.function,
        **words,
    )


def read(options: argparse.Namespace, spec: EncoderSpec) -> list[Review]:
    """The texts that the options of `add_text_options` name.

    Raises UserError where they cannot be read, and for a label that is none of the model's classes.
    """
    options.data = options.data or default_data(spec)
    reviews = images.load(
        spec.inputs,
        options.data,
        options.split,
        names=spec.labels,
        layout=layout_of(options),
        task=spec.task,
    )[: options.samples]
    most = max((-1 if review.label is None else review.label for review in reviews), default=-1)
    if most >= len(spec.labels):
        raise UserError(
            f"{options.data} has the label {most}: the model's classes are 0 to "
            f"{len(spec.labels) - 1} ({', '.join(spec.labels)})"
        )
    return reviews


def read_both(
    options: argparse.Namespace, tasks: Sequence[str] = LABELLED
) -> tuple[Path, Classifier, list[Review], list[Tokens], NDArray[Any]]:
    """The model of the options and its folder; the texts, their tokens, and their labels.

    The texts are read before a model is calibrated, which takes a minute. Raises UserError for
    texts that cannot be read, for a model of another task, and where its checkpoint is gone.
    """
    reviews = read(options, reader.of_options(options, tasks)[0])
    quantized, model = calibrated(options, tasks)
    classifier = Classifier.load(quantized, model)
    classifier.require_checkpoint()
    texts = [classifier.tokens(r.content, r.pair, max_tokens=options.tokens) for r in reviews]
    spec = classifier.spec
    return quantized, classifier, reviews, texts, task_of(spec).targets(spec, reviews, texts)


def place_of(data: str, review: Review, index: int) -> str:
    """Where a text stands: the file's line, or its number from 1, and how it begins."""
    where = f"text {index + 1}" if review.line is None else f"line {review.line}"
    begins = " ".join(review.text.split())
    return f"  {data}, {where} ({begins[:WIDTH] + '...' if len(begins) > WIDTH else begins})"


def add_text_options(parser: Parser, samples: int | None) -> None:
    """The options that say which model and which texts; shared by the commands that measure."""
    add_model(parser, default=None)
    parser.add_argument(
        "--data",
        metavar="NAME|FILE",
        help=f"texts: {' or '.join(CORPORA)}, or a .csv, .tsv, .jsonl, .txt or "
        f".parquet file (default: {DEFAULT_DATA}); of a model of images {images.DIGITS} (the "
        "default), a folder or a table of files; of one of rows a folder or a table of "
        ".npy files",
    )
    parser.add_argument(
        "--samples",
        type=positive,
        default=samples,
        metavar="N",
        help=f"only the first N texts (default: {samples or 'all'})",
    )
    add_tokens(parser, MAX_TOKENS)
    add_json(parser)
    add_columns(parser)


def parser() -> Parser:
    result = Parser(
        "quant.evaluate", "Accuracy of the float and the integer model on the same texts.", EXAMPLES
    )
    add_text_options(result, None)
    add_quantized(result)
    add_jobs(result, "shares of the texts")
    add_dask(result)
    result.add_argument(
        "--list-differences",
        type=whole(0),
        default=LISTED,
        metavar="N",
        help=f"show the first N texts of which float and golden say another class "
        f"(default: {LISTED})",
    )
    result.add_argument(
        "--split", choices=SPLITS, default="test", help="of a named corpus (default: test)"
    )
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: evaluate_command(parser().parse_args(arguments)))


def evaluate_command(options: argparse.Namespace) -> int:
    quantized, classifier, reviews, texts, labels = read_both(options)
    start = time.perf_counter()
    result = evaluate(classifier, texts, labels, jobs=options.jobs, dask=options.dask)
    if result.errors:
        print(f"{result.tensor_table()}\n")
    if listed := result.changed()[: options.list_differences]:
        print("where float and golden differ:")
        for i, *both in listed:
            print(f"{place_of(options.data, reviews[i], i)}: float {both[0]}, golden {both[1]}")
        print()
    print(result)
    print(f"{duration(time.perf_counter() - start)}")
    if options.json:
        source = {"data": options.data, "max_tokens": options.tokens}
        if options.data in images.NAMED:
            source["split"] = options.split
        model = str(classifier.require_checkpoint().directory)
        values = {"model": model, "quantized": str(quantized), "source": source}
        files.write_json(options.json, values | result.to_json())
    then("sim.run", "--quantized", quantized)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m quant.evaluate`: the integer model against the float one, and both against the labels.

Every text runs through both models, so that a difference between them is a paired observation; the
first of them run with a full trace, for the error of each tensor.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.journey import then
from cli.options import (
    Parser,
    add_dask,
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

from quant.calibrate import DEFAULT_DATA, MAX_TOKENS, calibrated, default_data
from quant.classify import Classifier
from quant.foreign.tokenizer import Tokens
from quant.images import data as images
from quant.measure.evaluation import (
    Evaluation,
    LabelEvaluation,
    NumberEvaluation,
    Outputs,
)
from quant.measure.paired import Models, Pairs, shares
from quant.measure.paired import run as run_both
from quant.measure.word_evaluation import UNCOUNTED, WordEvaluation
from quant.model.spec import CLASSIFICATION, LABELLED, MULTI_LABEL, TOKEN_CLASSIFICATION
from quant.texts.corpora import CORPORA, SPLITS, check_there
from quant.texts.data_file import Review, Targets, add_columns, layout_of

TRACED = 32
LISTED = 5
WIDTH = 40

Right = int | Targets | NDArray[np.int64]
"""What a file says of a text: a class, targets, or each token's class."""

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
    right: Sequence[Right],
    traced: int = TRACED,
    dask: str | None = None,
) -> Outputs:
    """Run both models on every text, the first ``traced`` with the errors of their tensors.

    right
        As `labelled_texts` gives it.
    dask
        As for `cli.workers.each`; by default everything runs in this process.
    """
    checkpoint = classifier.require_checkpoint()
    spec = checkpoint.spec
    models = Models(checkpoint, classifier.model, classifier.info["tensors"])
    found: list[Pairs] = []
    cases = shares(texts, traced)
    says = f"evaluating float and golden: {counted(len(texts), spec.inputs)}"
    with Bar(says, len(texts), spec.inputs) as bar:
        both = run_both if dask else partial(run_both, advance=bar.advance)
        for name, pairs in each(both, models, cases, dask=dask):
            found.append(pairs)
            bar.advance(len(cases[name][0]) if dask else 0)
    common: dict[str, Any] = {
        "names": spec.labels,
        "float_logits": np.concatenate([pairs.float_logits for pairs in found]),
        "integer_logits": np.concatenate([pairs.integer_logits for pairs in found]),
        "logit_scale": classifier.logit_scale,
        "tokens": sum(len(tokens.ids) for tokens in texts),
        "errors": found[0].errors,
        "traced": min(traced, len(texts)),
        "inputs": spec.inputs,
    }
    if spec.task == CLASSIFICATION:
        return Evaluation(**common, labels=np.asarray(right, np.int64))
    if spec.task == TOKEN_CLASSIFICATION:
        return _of_words(common, texts, np.concatenate(right))
    targets = np.asarray(right, np.float64)
    if spec.task == MULTI_LABEL:
        return LabelEvaluation(**common, targets=targets)
    return NumberEvaluation(**common, targets=targets, function=spec.function)


def _of_words(
    common: dict[str, Any], texts: Sequence[Tokens], labels: NDArray[np.int64]
) -> WordEvaluation:
    """The rows of the tokens with which words begin."""
    begins = labels != UNCOUNTED
    for name in ("float_logits", "integer_logits"):
        common[name] = common[name][begins]
    counts = [len(tokens.ids) for tokens in texts]
    return WordEvaluation(
        **common,
        labels=labels[begins],
        text=np.repeat(np.arange(len(texts)), counts)[begins],
        texts=len(texts),
        cut=sum(len(tokens.begins) - len(tokens.kept) for tokens in texts),
    )


def classes_of_tokens(review: Review, tokens: Tokens) -> NDArray[np.int64]:
    """The class of each token with which a word begins, -1 for none; of others UNCOUNTED."""
    found = np.full(len(tokens.ids), UNCOUNTED)
    tags = [-1 if tag is None else tag for tag in review.tags] or [-1] * len(tokens.spelling)
    found[tokens.first] = np.array(tags, np.int64)[tokens.kept]
    return found


def labelled_texts(
    options: argparse.Namespace, classifier: Classifier
) -> tuple[list[Review], list[Tokens], list[Right]]:
    """The texts that the options of `add_text_options` name, as tokens, and what is right of each.

    That is a class, -1 for none; of words those of `classes_of_tokens`; of other tasks the targets,
    not a number for none. Raises
    ValueError when a label is none of the model's classes.
    """
    spec, layout = classifier.spec, layout_of(options)
    options.data = options.data or default_data(spec)
    reviews = images.load(
        spec.inputs, options.data, options.split, names=spec.labels, layout=layout, task=spec.task
    )[: options.samples]
    texts = [classifier.tokens(r.content, r.pair, max_tokens=options.tokens) for r in reviews]
    if spec.task == TOKEN_CLASSIFICATION:
        return reviews, texts, [classes_of_tokens(*one) for one in zip(reviews, texts)]
    if spec.task != CLASSIFICATION:
        unknown = (nan,) * len(spec.labels)
        return reviews, texts, [unknown if r.targets is None else r.targets for r in reviews]
    labels = [-1 if review.label is None else review.label for review in reviews]
    if max(labels) >= len(spec.labels):
        raise UserError(
            f"{options.data} has the label {max(labels)}: the model's classes are 0 to "
            f"{len(spec.labels) - 1} ({', '.join(spec.labels)})"
        )
    return reviews, texts, list(labels)


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


def classifier_of(options: argparse.Namespace, tasks: Sequence[str]) -> tuple[Path, Classifier]:
    """The quantized directory that --model and --quantized name, and the model in it.

    A quantized model knows its checkpoint; without one that of --model, or of the shipped model, is
    calibrated first where it is missing. Raises ValueError as Classifier.load, for another task
    than these, and where the checkpoint is gone.
    """
    if options.data and options.data not in images.NAMED:
        check_there(options.data)  # before a calibration, which takes a minute
    quantized, model = calibrated(options, tasks)
    classifier = Classifier.load(quantized, model)
    classifier.spec.require(tasks, quantized)
    classifier.require_checkpoint()
    return quantized, classifier


def parser() -> Parser:
    result = Parser(
        "quant.evaluate", "Accuracy of the float and the integer model on the same texts.", EXAMPLES
    )
    add_text_options(result, None)
    add_quantized(result)
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
    quantized, classifier = classifier_of(options, LABELLED)
    reviews, texts, right = labelled_texts(options, classifier)
    start = time.perf_counter()
    result = evaluate(classifier, texts, right, dask=options.dask)
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

"""`python -m quant.evaluate`: the integer model against the float one, and both against the labels.

Every text runs through both models, so that a difference between them is a paired observation; the
first of them run with a full trace, for the error of each tensor.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from cli.command import run_command
from cli.journey import then
from cli.options import Parser, add_dask, add_jobs, add_model, positive
from cli.progress import Bar, duration
from cli.words import counted
from cli.workers import each

import numpy as np
from numpy.typing import NDArray

from quant import which
from quant.calibrate import DEFAULT_DATA, default_data, traced
from quant.foreign.tokenizer import Tokens
from quant.images import data as images
from quant.measure.compare import table
from quant.measure.metrics import shown
from quant.measure.tasks import UNCOUNTED, Evaluation, task_of
from quant.model.spec import LABELLED
from quant.quantized_model import QuantizedModel, add_options
from quant.texts.corpora import SPLITS
from quant.texts.data_file import Review, layout_of

SHARE = 32
"""Texts of a worker at a time, and those whose tensors are compared."""

EXAMPLES = """\
examples:
  python -m quant.evaluate
  python -m quant.evaluate --samples 1000 --json build/evaluation.json
  python -m quant.evaluate --dask tcp://head:8786
  python -m quant.evaluate --model my-model --data reviews.csv --tokens 128
"""


def evaluate(
    model: QuantizedModel, texts: Sequence[Tokens], labels: NDArray[Any], **workers: Any
) -> Evaluation:
    """Both models on every text, and the labels of `Task.targets`; workers as `each` has them."""
    spec = model.require_checkpoint().spec
    cases = {f"text {i}": texts[i : i + SHARE] for i in range(0, len(texts), SHARE)}
    its, first = model.placed(texts[:SHARE])
    errors, _ = traced(its.require_checkpoint(), its, first)
    found: list[tuple[Any, Any]] = []
    says = f"evaluating float and golden: {counted(len(texts), spec.inputs)}"
    with Bar(says, len(texts), spec.inputs) as bar:
        for name, outputs in each(QuantizedModel.run, model, cases, **workers):
            found.append(outputs)
            bar.update(len(cases[name]))
    integers, floats = (np.vstack([*chain(*rows)]) for rows in zip(*found))
    rows = labels != UNCOUNTED if labels.ndim == 1 else slice(None)
    return Evaluation(
        spec=spec,
        float_logits=floats[rows],
        integer_logits=integers[rows],
        logit_scale=model.logit_scale,
        errors=errors,
        traced=min(SHARE, len(texts)),
        labels=labels[rows],
        texts=texts,
    )


def read_both(
    options: argparse.Namespace, tasks: Sequence[str] = LABELLED
) -> tuple[Path, QuantizedModel, list[Review], list[Tokens], NDArray[Any]]:
    """The model of the options and its folder; the texts, their tokens, and their labels.

    The texts are read before a model is calibrated, which takes a minute. Raises UserError for
    texts and labels that cannot be read, for a model of another task, and where its checkpoint is
    gone.
    """
    spec, _ = which.of_options(options, tasks)
    options.data = options.data or default_data(spec)
    how = {"names": spec.labels, "layout": layout_of(options), "task": spec.task}
    reviews = images.load(spec.inputs, options.data, options.split, **how)[: options.samples]
    quantized, model = QuantizedModel.of_options(options, tasks)
    model.require_checkpoint()
    texts = [model.tokens(r.content, r.pair, max_tokens=options.tokens) for r in reviews]
    return quantized, model, reviews, texts, task_of(spec).targets(spec, reviews, texts)


def add_text_options(parser: Parser, samples: int | None) -> None:
    """The options that say which model and which texts; shared by the commands that measure."""
    add_model(parser, default=None)
    images.add_data(parser, DEFAULT_DATA)
    what = f"only the first N texts (default: {samples or 'all'})"
    parser.add_argument("--samples", type=positive, default=samples, metavar="N", help=what)
    what = "of a named corpus (default: test)"
    parser.add_argument("--split", choices=SPLITS, default="test", help=what)
    add_options(parser)


def parser() -> Parser:
    what = "Accuracy of the float and the integer model on the same texts."
    result = Parser("quant.evaluate", what, EXAMPLES)
    add_text_options(result, None)
    add_jobs(result, "shares of the texts")
    add_dask(result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: evaluate_command(parser().parse_args(arguments)))


def evaluate_command(options: argparse.Namespace) -> None:
    quantized, model, _, texts, labels = read_both(options)
    start = time.perf_counter()
    result = evaluate(model, texts, labels, jobs=options.jobs, dask=options.dask)
    values = result.to_json()
    lines = [shown({name: value for name, value in values.items() if name != "tensors"})]
    if result.errors:
        over = counted(result.traced, result.spec.inputs)
        lines.insert(0, f"tensors over {over}, worst first\n{table(result.errors)}\n")
    lines.append(duration(time.perf_counter() - start))
    source = {"data": options.data, "max_tokens": options.tokens}
    source |= {"split": options.split} if options.data in images.NAMED else {}
    names = {"model": str(model.require_checkpoint().directory), "quantized": str(quantized)}
    model.finish(names | {"source": source} | values, options.json, "\n".join(lines))
    then("sim.run", "--quantized", quantized)


if __name__ == "__main__":
    sys.exit(main())

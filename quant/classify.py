"""`python -m quant.classify "That movie was terrible!"`: one text through golden and float.

Prints what the integer model says (a class, several labels, numbers, or a class for each word), its
integer logits and their probabilities, and the float model's beside them. With --batch all texts of
a file, through the integer model alone.
"""

import argparse
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.errors import UserError
from cli.options import Parser, add_json, add_model, add_quantized, add_tokens
from cli.progress import progress

import numpy as np

from golden import encoder
from golden.model import Model
from quant.calibrate import MAX_TOKENS, calibrated
from quant.foreign.tokenizer import Tokens
from quant.images import data as images
from quant.measure import batch
from quant.measure.answers import (
    answer,
    numbers,
    said,
    table,
)
from quant.model import float_model
from quant.model.spec import LABELLED, QUESTION_ANSWERING, REGRESSION, EncoderSpec, Floats
from quant.quantized_model import QuantizedModel
from quant.texts.data_file import add_columns, layout_of, until_a_text

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

    def classify(self, tokens: Tokens) -> "Classification":
        its, (numbered,) = self.placed([tokens])
        logits = encoder.run(its.model, numbered.ids, numbered.types)
        floats = None
        if its.checkpoint:
            floats = float_model.run(
                its.checkpoint.spec, its.checkpoint.arrays, numbered.ids, numbered.types
            )
        return Classification(
            self.spec, tokens, logits, (logits * self.logit_scale).astype(np.float32), floats
        )


@dataclass(frozen=True)
class Classification:
    """The integer logits, the same in units of the float logits, and the float model's own."""

    spec: EncoderSpec
    tokens: Tokens
    integer_logits: np.ndarray
    logits: Floats
    float_logits: Floats | None

    def to_json(self) -> dict[str, Any]:
        spec, tokens, codes = self.spec, self.tokens, self.integer_logits
        floats = None
        if self.float_logits is not None:
            floats = answer(spec, tokens, self.float_logits)
        return {
            "tokens": len(self.tokens.ids),
            "dropped_tokens": self.tokens.dropped,
            "golden": answer(spec, tokens, self.logits, codes)
            | {"integer_logits": numbers(spec, tokens, codes)},
            "float": floats,
        }

    def __str__(self) -> str:
        values, spec = self.to_json(), self.spec
        golden, floats = values["golden"], values["float"]
        cut = f" ({self.tokens.dropped} more cut)" if self.tokens.dropped else ""
        lines = [f"{said(golden)}   from {values['tokens']} tokens{cut}"]
        lines += table(spec, golden, floats)
        if floats and spec.task != REGRESSION and said(floats) != said(golden):
            lines.append(f"the float model says {said(floats)}")
        return "\n".join(lines)


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
    """Raises ValueError unless there is either a text or a file of them."""
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
    text = read_standard_input() if options.text == "-" else options.text
    classifier = Classifier.load(*calibrated(options, Classifier.TASKS))
    if options.batch is not None:
        return classify_file(classifier, options)
    result = classifier.classify(classifier.tokens(text, options.pair, options.tokens))
    print(result)
    if options.json:
        files.write_json(options.json, result.to_json())
    return 0


def classify_file(classifier: Classifier, options: argparse.Namespace) -> int:
    """Every text of --batch; the counts go to stderr where the lines go to standard output."""
    spec, layout = classifier.spec, layout_of(options)
    reviews = images.stream(
        options.batch,
        inputs=spec.inputs,
        names=spec.labels,
        layout=layout,
        task=spec.task,
        empty=True,
    )
    before = list(until_a_text(reviews, str(options.batch)))
    shown = progress(chain(before, reviews), "classifying")

    def placed(texts: Sequence[Tokens]) -> tuple[Model, list[Tokens]]:
        its, numbered = classifier.placed(texts)
        return its.model, numbered

    lines = batch.classified(
        spec,
        classifier.logit_scale,
        lambda content, pair: classifier.tokens(content, pair, options.tokens),
        placed,
        shown,
    )
    counts = batch.write_lines(lines, options.out, spec)
    print(counts, file=sys.stderr if options.out is None else sys.stdout)
    if options.json:
        files.write_json(options.json, counts.to_json())
    return 0


if __name__ == "__main__":
    sys.exit(main())

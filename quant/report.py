"""`python -m quant.report`: a calibration and its evaluation as one HTML page.

The page carries all it needs: no script, no font or file from elsewhere.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli import files
from cli.command import run_command
from cli.machine import BUILD
from cli.options import Parser, add_quantized
from cli.page.template import render
from cli.paths import check_written

import numpy as np

from quant.evaluate import add_text_options, evaluate, read_both
from quant.measure.compare import TensorError
from quant.measure.metrics import percent, points
from quant.measure.tasks import Evaluation
from quant.measure.verdict import ADVICE, AGREEMENT, SQNR_DB, judge
from quant.model.spec import CLASSIFICATION
from quant.texts.corpora import SPLITS
from quant.texts.data_file import Review

TEMPLATE = Path(__file__).with_name("report.html")
SHOWN_TENSORS = 12  # before the fold
SHOWN_TEXTS = 20
SHOWN_CHARACTERS = 400
ENOUGH = 30  # labels that tell a model from a guess

EXAMPLES = """\
examples:
  python -m quant.report
  python -m quant.report --samples 5000 --out build/report.html
"""


def guess(result: Evaluation) -> str:
    """A sentence if the float model is no better than always naming the most frequent class.

    A better model is right more often, by two standard deviations of that guess's share of right
    texts. Fewer than ENOUGH labels, or labels of one class alone, say nothing.
    """
    labels = result.labels[result.labelled]
    counts = np.bincount(labels, minlength=len(result.names))
    if len(labels) < ENOUGH or counts.max() == len(labels):
        return ""
    share = counts.max() / len(labels)
    accuracy = float(np.mean(result.float_classes[result.labelled] == labels))
    if accuracy > share + 2 * np.sqrt(share * (1 - share) / len(labels)):
        return ""
    return (
        f"The float model itself is right on {percent(accuracy)} of {len(labels):,} labelled "
        f"{result.inputs}, no better than always answering {result.names[int(counts.argmax())]}, "
        f"which is right on {percent(float(share))}. Its integers cannot be better: train it, or "
        "check that the labels are those of the model."
    )


def scores(result: Evaluation, values: dict[str, Any]) -> list[list[str]]:
    """Accuracy, precision, recall and F1 of both models, and their differences in points."""
    floats, integers = values["float"], values["golden"]
    if not floats:
        return []
    pairs = [
        ("accuracy", floats["accuracy"], integers["accuracy"]),
        *(
            (f"{key} {name}", floats[key][i], integers[key][i])
            for i, name in enumerate(result.names)
            for key in ("precision", "recall", "f1")
        ),
    ]
    return [[name, percent(a), percent(b), points(a, b)] for name, a, b in pairs]


def tensor_row(name: str, error: TensorError) -> list[str]:
    channels = ", ".join(f"{c} ({times:.0f}x)" for c, times in error.outliers()[:4])
    share = error.limits / max(error.count, 1)
    largest = error.largest / error.lsb
    return [name, f"{error.sqnr:.1f}", f"{largest:.1f}", f"{share:.3%}", channels or "-"]


def wrong_texts(result: Evaluation, reviews: Sequence[Review]) -> list[dict[str, Any]]:
    """Texts that quantization changed, then those that both models get wrong, closest call first.

    The margin of a call is between the two largest integer logits.
    """
    floats, integers = result.float_classes, result.integer_classes
    second, first = np.sort(result.integer_logits, axis=1)[:, -2:].T
    margins = (first - second) * result.logit_scale
    changed = floats != integers
    wrong = np.flatnonzero(changed | result.labelled & (integers != result.labels)).tolist()
    found = []
    for i in sorted(wrong, key=lambda i: (not changed[i], margins[i])):
        text = " / ".join(part for part in (reviews[i].text, reviews[i].pair) if part)
        found.append(
            {
                "changed": bool(changed[i]),
                "label": result.names[result.labels[i]] if result.labelled[i] else "none",
                "float": result.names[floats[i]],
                "integer": result.names[integers[i]],
                "margin": f"{margins[i]:.3f}",
                "text": text[:SHOWN_CHARACTERS] + " ..." * (len(text) > SHOWN_CHARACTERS),
            }
        )
    return found


def page(info: dict[str, Any], result: Evaluation, reviews: Sequence[Review]) -> str:
    """The whole page, from what calibration wrote and what evaluation measured."""
    texts, values = len(result.float_logits), result.to_json()
    wrong = wrong_texts(result, reviews)
    ordered = sorted(result.errors.items(), key=lambda item: item[1].sqnr)
    tensors = [tensor_row(name, error) for name, error in ordered]
    return render(
        TEMPLATE,
        info=info,
        values=values,
        inputs=result.inputs,
        names=result.names,
        verdict=judge(result.errors, result.agreement, texts, inputs=result.inputs),
        guess=guess(result),
        agreement=percent(result.agreement),
        bounds=f"{SQNR_DB:.0f} dB for a tensor and {AGREEMENT:.0%} of the {result.inputs}",
        advice=ADVICE,
        scores=scores(result, values),
        tensors=(tensors[:SHOWN_TENSORS], tensors[SHOWN_TENSORS:]),
        wrong=wrong[:SHOWN_TEXTS],
        more=len(wrong) - SHOWN_TEXTS,
    )


def parser() -> Parser:
    result = Parser(
        "quant.report", "One HTML page that shows a calibration and its evaluation.", EXAMPLES
    )
    add_text_options(result, 500)
    add_quantized(result)
    result.add_argument(
        "--split", choices=SPLITS, default="test", help="of a named corpus (default: test)"
    )
    result.add_argument(
        "--out", type=Path, metavar="FILE", help="the page (default: build/report-MODEL.html)"
    )
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: report_command(parser().parse_args(arguments)))


def report_command(options: argparse.Namespace) -> int:
    quantized, classifier, reviews, texts, labels = read_both(options, (CLASSIFICATION,))
    out = options.out or BUILD / f"report-{quantized.resolve().name}.html"
    check_written(out, "FILE")
    result = evaluate(classifier, texts, labels)
    files.write(out, page(classifier.info, result, reviews))
    print(f"wrote {out}")
    if options.json:
        files.write_json(options.json, result.to_json())
    return 0


if __name__ == "__main__":
    sys.exit(main())

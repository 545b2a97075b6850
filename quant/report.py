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
from cli.options import Parser
from cli.page.template import render
from cli.paths import check_written

import numpy as np

from quant.evaluate import add_text_options, evaluate, read_both
from quant.measure.tasks import ADVICE, AGREEMENT, SQNR_DB, Evaluation, judge, task_of
from quant.model.spec import CLASSIFICATION
from quant.texts.data_file import Review

TEMPLATE = Path(__file__).with_name("report.html")
SHOWN_TENSORS = 12  # before the fold
SHOWN_TEXTS = 20
SHOWN_CHARACTERS = 400

EXAMPLES = """\
examples:
  python -m quant.report
  python -m quant.report --samples 5000 --out build/report.html
"""


def wrong_texts(result: Evaluation, reviews: Sequence[Review]) -> list[dict[str, Any]]:
    """Texts that quantization changed, then those that both models get wrong, closest call first.

    The margin of a call is between the two largest integer logits.
    """
    names, (floats, integers) = result.spec.labels, task_of(result.spec).both(result)
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
                "label": names[result.labels[i]] if result.labelled[i] else "none",
                "float": names[floats[i]],
                "integer": names[integers[i]],
                "margin": f"{margins[i]:.3f}",
                "text": text[:SHOWN_CHARACTERS] + " ..." * (len(text) > SHOWN_CHARACTERS),
            }
        )
    return found


def page(info: dict[str, Any], result: Evaluation, reviews: Sequence[Review]) -> str:
    """The whole page, from what calibration wrote and what evaluation measured."""
    values, inputs, wrong = result.to_json(), result.spec.inputs, wrong_texts(result, reviews)
    return render(
        TEMPLATE,
        info=info,
        values=values,
        inputs=inputs,
        verdict=judge(result.errors, values["agreement"], values["texts"], inputs=inputs),
        bounds=f"{SQNR_DB:.0f} dB for a tensor and {AGREEMENT:.0%} of the {inputs}",
        advice=ADVICE,
        first=SHOWN_TENSORS,
        wrong=wrong[:SHOWN_TEXTS],
        more=len(wrong) - SHOWN_TEXTS,
    )


def parser() -> Parser:
    what = "One HTML page that shows a calibration and its evaluation."
    result = Parser("quant.report", what, EXAMPLES)
    add_text_options(result, 500)
    what = "the page (default: build/report-MODEL.html)"
    result.add_argument("--out", type=Path, metavar="FILE", help=what)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: report_command(parser().parse_args(arguments)))


def report_command(options: argparse.Namespace) -> None:
    quantized, model, reviews, texts, labels = read_both(options, (CLASSIFICATION,))
    out = options.out or BUILD / f"report-{quantized.resolve().name}.html"
    check_written(out, "FILE")
    result = evaluate(model, texts, labels)
    files.write(out, page(model.info, result, reviews))
    model.finish(result.to_json(), options.json, f"wrote {out}")


if __name__ == "__main__":
    sys.exit(main())

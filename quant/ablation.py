"""`python -m quant.ablation`: what each choice of the numerics is worth, in one table.

One row a variant: the model is observed once, quantized anew for each row, and run on the same
texts. The mean difference of the logits from the float model's resolves what accuracy on a thousand
texts cannot.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from cli import files
from cli.command import run_command
from cli.options import Parser
from cli.progress import progress

import numpy as np
from numpy.typing import NDArray

from quant.calibrate import (
    DEFAULT_DATA,
    SAMPLES,
    SPLIT,
    Calibrator,
    default_data,
    encode,
    golden_logits,
)
from quant.evaluate import add_text_options
from quant.foreign import hub
from quant.foreign.checkpoint import DEFAULT_MODEL, load
from quant.foreign.tokenizer import Tokens
from quant.images import data as images
from quant.model import float_model
from quant.model.spec import CLASSIFICATION
from quant.quantize import given, variants
from quant.quantize.observers import METHODS
from quant.quantize.options import REMEDIES, Options, applicable, idle
from quant.quantize.variants import Variant
from quant.texts.corpora import SPLITS
from quant.texts.data_file import layout_of

EXAMPLES = """\
examples:
  python -m quant.ablation
  python -m quant.ablation --samples 200 --tokens 128 --json build/ablation.json
  python -m quant.ablation --part remedies --data rotten-tomatoes --calibration rotten-tomatoes
"""


@dataclass(frozen=True)
class Row:
    """One line of the table: how the model was quantized, and how it was run."""

    name: str
    options: Options
    variant: Variant = field(default_factory=Variant)


PARTS = ("numerics", "remedies")


def rows(parts: Sequence[str] = PARTS, remedies: Sequence[str] = REMEDIES) -> list[Row]:
    """The plain contract, then it with one choice changed at a time.

    numerics: what the contract decided. remedies: each one alone, all, and all but each one.
    """
    plain = Options(remedies=())
    found = [Row("contract", plain)]
    if "numerics" in parts:
        found += [
            Row("residual stream 8 bit", plain, Variant(residual_bits=8)),
            Row("softmax 8 bit, normalised before V", plain, Variant(softmax="normalised 8")),
            Row("softmax 16 bit", plain, Variant(softmax="unnormalised 16")),
            Row("one weight scale a tensor", replace(plain, per_channel=False)),
            Row("multipliers of 8 bits", replace(plain, multiplier_bits=8)),
            Row("no bias correction", replace(plain, bias_correction=False)),
            *(
                Row(f"calibrated by {method}", replace(plain, method=method))
                for method in METHODS
                if method != plain.method
            ),
        ]
    if "remedies" in parts:
        found += [Row(f"{name} alone", replace(plain, remedies=(name,))) for name in remedies]
        found.append(Row("all remedies", replace(plain, remedies=tuple(remedies))))
        for name in remedies:
            rest = tuple(other for other in remedies if other != name)
            found.append(Row(f"all but {name}", replace(plain, remedies=rest)))
    return found


@dataclass(frozen=True)
class Measured:
    """The logits of one row, in units of the float logits."""

    name: str
    difference: NDArray[np.float64]
    agreement: float
    accuracy: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "variant": self.name,
            "mean_difference": float(self.difference.mean()),
            "largest_difference": float(self.difference.max()),
            "agreement": self.agreement,
            "accuracy": self.accuracy,
        }


def parser() -> Parser:
    result = Parser(
        "quant.ablation",
        "The integer model with one choice of its numerics changed at a time.",
        EXAMPLES,
    )
    add_text_options(result, 1000)
    result.add_argument(
        "--split",
        choices=SPLITS,
        default="validation",
        help="of a named corpus (default: validation; choices are not made on the test texts)",
    )
    result.add_argument(
        "--calibration",
        metavar="NAME|FILE",
        help=f"texts to calibrate on: the first {SAMPLES} of the training split of a corpus, or of "
        f"a file (default {DEFAULT_DATA}; of a model of images {images.DIGITS})",
    )
    result.add_argument(
        "--part",
        action="append",
        dest="parts",
        choices=PARTS,
        help="numerics: choices of the contract; remedies: those of quant.calibrate (default both)",
    )
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: ablation_command(parser().parse_args(arguments)))


def ablation_command(options: argparse.Namespace) -> int:
    options.model = hub.local(options.model or DEFAULT_MODEL)
    checkpoint = load(options.model)
    checkpoint.spec.require((CLASSIFICATION,), options.model)
    names = checkpoint.spec.labels
    inputs = checkpoint.spec.inputs
    data = options.data or default_data(checkpoint.spec)
    observed = options.calibration or default_data(checkpoint.spec)
    reviews = images.load(inputs, data, options.split, names=names, layout=layout_of(options))
    reviews = reviews[: options.samples]
    calibration = images.load(inputs, observed, SPLIT, names=())[:SAMPLES]
    texts = encode(reviews, checkpoint, options.tokens)
    labels = np.array([-1 if review.label is None else review.label for review in reviews])
    samples = encode(calibration, checkpoint, options.tokens)
    calibrator = Calibrator(*given.placed(checkpoint, samples))
    floats = np.stack(
        [
            float_model.run(checkpoint.spec, checkpoint.arrays, tokens.ids, tokens.types)
            for tokens in progress(texts, "float")
        ]
    )
    known = labels >= 0
    results = []
    for row in rows(options.parts or PARTS, applicable(checkpoint.spec)):
        quantized = calibrator.quantize(row.options, partial(variant_logits, row=row))
        codes = variant_logits(quantized.model, texts, row)
        logits = codes * quantized.info["tensors"]["logits"]["scale"]
        classes = logits.argmax(axis=1)
        results.append(
            Measured(
                row.name,
                np.abs(logits - floats),
                float(np.mean(classes == floats.argmax(axis=1))),
                share(classes == labels, known),
            )
        )
    accuracy = share(floats.argmax(axis=1) == labels, known)
    if not known.all():
        print(
            f"{np.sum(~known):,} of {len(texts):,} texts have no label: accuracy is over the others"
        )
    print(format_table(results, accuracy, len(texts)))
    for name, why in idle(checkpoint.spec).items():
        print(f"{name} has no effect: {why}")
    if options.json:
        values = {
            "texts": len(texts),
            "float_accuracy": accuracy,
            "rows": [result.to_json() for result in results],
        }
        files.write_json(options.json, values)
    return 0


def share(right: NDArray[np.bool_], known: NDArray[np.bool_]) -> float | None:
    """The share of the labelled texts that are right; None when none is labelled."""
    return float(np.mean(right[known])) if known.any() else None


def variant_logits(model: Any, texts: Sequence[Tokens], row: Row) -> NDArray[np.int64]:
    """By the fast engine where the row runs as the contract says, else simulated text by text."""
    if row.variant == Variant():
        return golden_logits(model, texts)
    logits = [variants.run(model, tokens, row.variant) for tokens in progress(texts, row.name)]
    return np.stack(logits).astype(np.int64)


def format_table(results: Sequence[Measured], float_accuracy: float | None, texts: int) -> str:
    shown = "" if float_accuracy is None else f", float accuracy {float_accuracy:.2%}"
    lines = [
        f"{texts:,} texts{shown}",
        f"{'variant':36}{'mean |logit - float|':>21}{'largest':>10}{'agreement':>11}"
        f"{'accuracy':>10}",
    ]
    for result in results:
        accuracy = "" if result.accuracy is None else f"{result.accuracy:10.2%}"
        lines.append(
            f"{result.name:36}{result.difference.mean():21.5f}{result.difference.max():10.4f}"
            f"{result.agreement:11.2%}{accuracy}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

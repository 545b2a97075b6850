"""`python -m quant.evaluate`: the integer model against the float one, and both against the labels.

Every text runs through both models, so that a difference between them is a paired observation; the
first of them run with a full trace, for the error of each tensor.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cli import files
from cli.command import run_command
from cli.options import Parser, add_dask, add_json, add_model, add_quantized, add_tokens, positive
from cli.progress import progress
from cli.workers import each

import numpy as np
from numpy.typing import NDArray

from quant import hub
from quant.calibrate import DEFAULT_DATA, MAX_TOKENS, ensure
from quant.classify import Classifier
from quant.compare import TensorError, table
from quant.data_file import add_columns, layout_of
from quant.metrics import Classes, Scores, confusion_matrix, mcnemar, percent, points
from quant.paired import Models, Pairs, shares
from quant.paired import run as run_both
from quant.texts import CORPORA, SPLITS, load_texts
from quant.tokenizer import Tokens

TRACED = 32

EXAMPLES = """\
examples:
  python -m quant.evaluate
  python -m quant.evaluate --samples 1000 --json build/evaluation.json
  python -m quant.evaluate --dask tcp://head:8786
  python -m quant.evaluate --model my-model --data reviews.csv --tokens 128
"""


@dataclass(frozen=True)
class Evaluation:
    """What both models said of the same texts.

    float_logits float32 and integer_logits int64 [n, C], in units of logit_scale; labels [n], -1
    where a text has none; errors by tensor over the ``traced`` first texts.
    """

    names: tuple[str, ...]
    labels: Classes
    float_logits: NDArray[np.float32]
    integer_logits: NDArray[np.int64]
    logit_scale: float
    tokens: int
    errors: dict[str, TensorError]
    traced: int

    @property
    def float_classes(self) -> Classes:
        return self.float_logits.argmax(axis=1)

    @property
    def integer_classes(self) -> Classes:
        return self.integer_logits.argmax(axis=1)

    @property
    def difference(self) -> NDArray[np.float64]:
        """|integer - float| of every logit, in units of the float logits."""
        return np.abs(self.integer_logits * self.logit_scale - self.float_logits)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which texts have a label [n]."""
        return self.labels >= 0

    @property
    def agreement(self) -> float:
        return float(np.mean(self.float_classes == self.integer_classes))

    def scores(self, classes: Classes) -> Scores | None:
        """Against the labels of the texts that have one; None when none has."""
        if not self.labelled.any():
            return None
        known = self.labelled
        return Scores(confusion_matrix(self.labels[known], classes[known], len(self.names)))

    def flips(self) -> dict[str, Any]:
        """Texts whose class differs: which of the two models was right, and McNemar's p."""
        float_classes, integer_classes = self.float_classes, self.integer_classes
        result: dict[str, Any] = {"changed": int(np.sum(float_classes != integer_classes))}
        if self.labelled.any():
            float_right = (float_classes == self.labels)[self.labelled]
            integer_right = (integer_classes == self.labels)[self.labelled]
            lost = int(np.sum(float_right & ~integer_right))
            won = int(np.sum(~float_right & integer_right))
            result |= {"only_float_right": lost, "only_golden_right": won}
            result["mcnemar_p"] = mcnemar(lost, won)
        return result

    def to_json(self) -> dict[str, Any]:
        difference = self.difference
        floats, integers = self.scores(self.float_classes), self.scores(self.integer_classes)
        return {
            "texts": len(self.float_logits),
            "labelled_texts": int(self.labelled.sum()),
            "tokens": self.tokens,
            "classes": list(self.names),
            "float": floats.to_json() if floats else None,
            "golden": integers.to_json() if integers else None,
            "agreement": self.agreement,
            "flips": self.flips(),
            "logit_difference": {
                "largest": float(difference.max()),
                "mean": float(difference.mean()),
                "lsb": self.logit_scale,
                "largest_lsb": float(difference.max() / self.logit_scale),
                "mean_lsb": float(difference.mean() / self.logit_scale),
                "float_spread": float(self.float_logits.std()),
            },
            "traced_texts": self.traced,
            "tensors": {
                name: error.to_json()
                for name, error in sorted(self.errors.items(), key=lambda item: item[1].sqnr)
            },
        }

    def __str__(self) -> str:
        values = self.to_json()
        texts, labelled = values["texts"], values["labelled_texts"]
        lines = [f"{texts} texts, {values['tokens']} tokens"]
        if labelled < texts:
            counted = "so there is no accuracy" if not labelled else f"accuracy is over {labelled}"
            lines.append(f"{texts - labelled} of {texts} texts have no label: {counted}")
        if values["float"] and values["golden"]:
            lines += self._scores_table(values["float"], values["golden"])
        flips, difference = values["flips"], values["logit_difference"]
        lines.append(f"agreement         {self.agreement:.2%}, {flips['changed']} texts differ")
        if "mcnemar_p" in flips:
            lines.append(
                f"{'':18}only float right {flips['only_float_right']}, only golden right "
                f"{flips['only_golden_right']}, McNemar p = {flips['mcnemar_p']:.3f}"
            )
        lines.append(
            f"logit difference  largest {difference['largest']:.4f} "
            f"({difference['largest_lsb']:.0f} LSB), mean {difference['mean']:.5f} "
            f"({difference['mean_lsb']:.0f} LSB); the logits' deviation is "
            f"{difference['float_spread']:.3f}"
        )
        if self.errors:
            lines += ["", f"tensors over {self.traced} texts, worst first", table(self.errors)]
        return "\n".join(lines)

    def _scores_table(self, floats: dict[str, Any], integers: dict[str, Any]) -> list[str]:
        def change(a: float | None, b: float | None) -> str:
            return f"{percent(a):>9} {percent(b):>9} {points(a, b):>8}"

        low, high = floats["accuracy_95"]
        lines = [
            f"{'':18}{'float':>9} {'golden':>9} {'points':>8}",
            f"{'accuracy':18}{change(floats['accuracy'], integers['accuracy'])}"
            f"   float 95 % interval {low:.2%} to {high:.2%}",
        ]
        for i, name in enumerate(self.names):
            for key in ("precision", "recall", "f1"):
                label = f"{key} {name}"
                lines.append(f"{label:18}{change(floats[key][i], integers[key][i])}")
        lines += ["confusion (row: true class)", *self._confusion(floats, integers)]
        return lines

    def _confusion(self, floats: dict[str, Any], integers: dict[str, Any]) -> list[str]:
        lines = []
        for name, a, b in zip(self.names, floats["confusion"], integers["confusion"]):
            rows = ["".join(f"{count:8}" for count in row) for row in (a, b)]
            lines.append(f"  {name:14}{rows[0]}    |{rows[1]}")
        return lines


def evaluate(
    classifier: Classifier,
    texts: Sequence[Tokens],
    labels: Sequence[int],
    traced: int = TRACED,
    dask: str | None = None,
) -> Evaluation:
    """Run both models on every text, the first ``traced`` with the errors of their tensors.

    dask
        As for `cli.workers.each`; by default everything runs in this process.
    """
    checkpoint = classifier.require_checkpoint()
    models = Models(checkpoint, classifier.model, classifier.info["tensors"])
    found: list[Pairs] = []
    results = each(run_both, models, shares(texts, traced), dask=dask)
    several = ((pairs, i) for _, pairs in results for i in range(len(pairs.float_logits)))
    for pairs, i in progress(several, "evaluating float and golden", total=len(texts)):
        if i == 0:
            found.append(pairs)
    return Evaluation(
        names=checkpoint.spec.labels,
        labels=np.asarray(labels, np.int64),
        float_logits=np.concatenate([pairs.float_logits for pairs in found]),
        integer_logits=np.concatenate([pairs.integer_logits for pairs in found]),
        logit_scale=classifier.logit_scale,
        tokens=sum(len(tokens.ids) for tokens in texts),
        errors=found[0].errors,
        traced=min(traced, len(texts)),
    )


def labelled_texts(
    options: argparse.Namespace, classifier: Classifier
) -> tuple[list[Tokens], list[int]]:
    """The texts that the options of `add_text_options` name as tokens, and their labels or -1.

    Raises ValueError when a label is none of the model's classes.
    """
    names = classifier.spec.labels
    reviews = load_texts(options.data, options.split, names=names, layout=layout_of(options))
    reviews = reviews[: options.samples]
    labels = [-1 if review.label is None else review.label for review in reviews]
    if max(labels) >= len(names):
        raise ValueError(
            f"{options.data} has the label {max(labels)}: the model's classes are 0 to "
            f"{len(names) - 1} ({', '.join(names)})"
        )
    texts = [classifier.tokens(r.text, r.pair, max_tokens=options.tokens) for r in reviews]
    return texts, labels


def add_text_options(parser: Parser, samples: int | None) -> None:
    """The options that say which model and which texts; shared by the commands that measure."""
    add_model(parser)
    parser.add_argument(
        "--data",
        default=DEFAULT_DATA,
        metavar="NAME|FILE",
        help=f"texts: {' or '.join(CORPORA)}, or a .csv, .tsv, .jsonl, .txt or "
        f".parquet file (default: {DEFAULT_DATA})",
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
    add_dask(result)
    result.add_argument(
        "--split", choices=SPLITS, default="test", help="of a named corpus (default: test)"
    )
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: evaluate_command(parser().parse_args(arguments)))


def evaluate_command(options: argparse.Namespace) -> int:
    options.model = hub.local(options.model)
    quantized = options.quantized or ensure(options.model)
    classifier = Classifier.load(quantized, options.model)
    texts, labels = labelled_texts(options, classifier)
    start = time.perf_counter()
    result = evaluate(classifier, texts, labels, dask=options.dask)
    print(result)
    print(f"{time.perf_counter() - start:.0f} s")
    if options.json:
        source = {"data": options.data, "max_tokens": options.tokens}
        if options.data in CORPORA:
            source["split"] = options.split
        values = {"model": str(options.model), "quantized": str(quantized), "source": source}
        files.write_json(options.json, values | result.to_json())
    return 0


if __name__ == "__main__":
    sys.exit(main())

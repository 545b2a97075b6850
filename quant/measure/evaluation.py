"""Outputs of both models for the same texts, compared with each other and with the labels.

One class a task: Evaluation of classes, LabelEvaluation of several labels at once,
NumberEvaluation of numbers; that of a class for every token is in quant.measure.word_evaluation.
All give the same figures of the distance between the models.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cli.words import counted, verb

import numpy as np
from numpy.typing import NDArray

from quant.measure.answers import held, through
from quant.measure.compare import (
    TensorError,
    table,
)
from quant.measure.metrics import (
    Classes,
    LabelScores,
    Scores,
    confusion_matrix,
    determination,
    mcnemar,
    pearson,
    percent,
    points,
    spearman,
)
from quant.model.spec import IDENTITY, TEXTS
from quant.quantize.decode import Doubles


@dataclass(frozen=True)
class Outputs(ABC):
    """What both models said of the same texts, a row of logits for each, which is a UNIT.

    float_logits float32 and integer_logits int64 [n, C], in units of logit_scale (a number, or one
    for each output); errors by tensor over the ``traced`` first texts; inputs: what the texts are.
    """

    COUNTED: ClassVar[str] = "accuracy"
    UNIT: ClassVar[str] = TEXTS

    names: tuple[str, ...]
    float_logits: NDArray[np.float32]
    integer_logits: NDArray[np.int64]
    logit_scale: float | Doubles
    tokens: int
    errors: dict[str, TensorError]
    traced: int
    inputs: str = field(default=TEXTS, kw_only=True)

    @property
    def scaled(self) -> Doubles:
        """The integer logits in the units of the float ones."""
        return self.integer_logits * self.logit_scale

    @property
    def difference(self) -> NDArray[np.float64]:
        """|integer - float| of every logit, in units of the float logits."""
        return np.abs(self.scaled - self.float_logits)

    @property
    @abstractmethod
    def labelled(self) -> NDArray[np.bool_]:
        """Of which texts it is known what is right [n]."""

    @abstractmethod
    def measures(self) -> dict[str, Any]:
        """The figures of this task: float, golden, and how they agree."""

    @abstractmethod
    def measure_lines(self, values: dict[str, Any]) -> list[str]:
        """They, in words."""

    def to_json(self) -> dict[str, Any]:
        difference = self.difference
        steps = difference / self.logit_scale
        return {
            self.UNIT: len(self.float_logits),
            f"labelled_{self.UNIT}": int(self.labelled.sum()),
            "tokens": self.tokens,
            "classes": list(self.names),
            **self.measures(),
            "logit_difference": {
                "largest": float(difference.max()),
                "mean": float(difference.mean()),
                "lsb": np.asarray(self.logit_scale).tolist(),
                "largest_lsb": float(steps.max()),
                "mean_lsb": float(steps.mean()),
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
        all_, labelled = values[self.UNIT], values[f"labelled_{self.UNIT}"]
        lines = [self.counted(values)]
        if labelled < all_:
            name = self.COUNTED
            over = f"so there is no {name}" if not labelled else f"{name} is over {labelled:,}"
            lacking, have = all_ - labelled, verb(all_ - labelled, "have")
            lines.append(f"{lacking:,} of {counted(all_, self.unit)} {have} no label: {over}")
        lines += self.difference_lines(values) + self.measure_lines(values)
        return "\n".join(lines)

    def tensor_table(self) -> str:
        """The errors of the tensors; "" where none were compared."""
        over = counted(self.traced, self.inputs)
        return f"tensors over {over}, worst first\n{table(self.errors)}" if self.errors else ""

    def changed(self) -> list[tuple[int, str, str]]:
        """The texts of which both models say something else, and what float and golden say."""
        return []

    def counted(self, values: dict[str, Any]) -> str:
        """How much was looked at."""
        return f"{counted(values['texts'], self.inputs)}, {counted(values['tokens'], 'tokens')}"

    @property
    def unit(self) -> str:
        """What a row is of, in words."""
        return self.inputs if self.UNIT == TEXTS else self.UNIT

    @property
    def column(self) -> int:
        """Characters of the first column: a name, and before it what is measured of it."""
        return max(18, *(len(f"precision {name}") for name in self.names))

    def lines_by_name(self, floats: dict[str, Any], integers: dict[str, Any]) -> list[str]:
        """Precision, recall and F1 of each class or label, float beside golden."""
        return [
            f"{f'{key} {name}':{self.column}}{change(floats[key][i], integers[key][i])}"
            for i, name in enumerate(self.names)
            for key in ("precision", "recall", "f1")
        ]

    def difference_lines(self, values: dict[str, Any]) -> list[str]:
        """How far the logits are apart, all of them together."""
        difference = values["logit_difference"]
        return [
            f"logit difference  largest {difference['largest']:.4f} "
            f"({difference['largest_lsb']:,.0f} LSB), mean {difference['mean']:.5f} "
            f"({difference['mean_lsb']:,.0f} LSB); the logits' deviation is "
            f"{difference['float_spread']:.3f}"
        ]


@dataclass(frozen=True)
class Evaluation(Outputs):
    """Of classes. labels [n], -1 where a text has none."""

    labels: Classes

    @property
    def float_classes(self) -> Classes:
        return self.float_logits.argmax(axis=1)

    @property
    def integer_classes(self) -> Classes:
        return self.integer_logits.argmax(axis=1)

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which texts have a label [n]."""
        return self.labels >= 0

    @property
    def agreement(self) -> float:
        return float(np.mean(self.float_classes == self.integer_classes))

    def changed(self) -> list[tuple[int, str, str]]:
        both = zip(self.float_classes, self.integer_classes, strict=True)
        return [(i, self.names[a], self.names[b]) for i, (a, b) in enumerate(both) if a != b]

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

    def measures(self) -> dict[str, Any]:
        floats, integers = self.scores(self.float_classes), self.scores(self.integer_classes)
        return {
            "float": floats.to_json() if floats else None,
            "golden": integers.to_json() if integers else None,
            "agreement": self.agreement,
            "flips": self.flips(),
        }

    def measure_lines(self, values: dict[str, Any]) -> list[str]:
        lines = []
        if values["float"] and values["golden"]:
            lines += self._scores_table(values["float"], values["golden"])
        flips = values["flips"]
        lines.append(
            f"agreement         {self.agreement:.2%}, {_differ(flips['changed'], self.unit)}"
        )
        if "mcnemar_p" in flips:
            lines.append(
                f"{'':18}only float right {flips['only_float_right']:,}, only golden right "
                f"{flips['only_golden_right']:,}, McNemar p = {flips['mcnemar_p']:.3f}"
            )
        return lines

    def _scores_table(self, floats: dict[str, Any], integers: dict[str, Any]) -> list[str]:
        low, high = floats["accuracy_95"]
        width = max(14, *map(len, self.names))
        lines = [
            f"{'':{self.column}}{'float':>9} {'golden':>9} {'points':>8}",
            f"{'accuracy':{self.column}}{change(floats['accuracy'], integers['accuracy'])}"
            f"   float 95 % interval {low:.2%} to {high:.2%}",
        ]
        lines += self.lines_by_name(floats, integers)
        for key, title, cell in (
            ("confusion", "confusion (row: true class)", "{:,}".format),
            ("confusion_shares", "confusion in percent of the true class", percent),
        ):
            lines.append(title)
            for name, *rows in zip(self.names, floats[key], integers[key]):
                a, b = ("".join(f"{cell(value):>8}" for value in row) for row in rows)
                lines.append(f"  {name:{width}}{a}    |{b}")
        return lines


@dataclass(frozen=True)
class LabelEvaluation(Outputs):
    """Of several labels at once. targets [n, C]: 1 for a label that holds, 0, or not a number."""

    COUNTED: ClassVar[str] = "F1"

    targets: NDArray[np.float64]

    @property
    def labelled(self) -> NDArray[np.bool_]:
        return _known(self.targets)

    def changed(self) -> list[tuple[int, str, str]]:
        both = zip(held(self.float_logits), held(self.integer_logits), strict=True)
        return [
            (i, self._said(a), self._said(b)) for i, (a, b) in enumerate(both) if (a != b).any()
        ]

    def _said(self, holds: NDArray[np.bool_]) -> str:
        return "+".join(name for name, one in zip(self.names, holds) if one) or "none"

    def scores(self, logits: NDArray[Any]) -> dict[str, Any] | None:
        known = self.labelled
        if not known.any():
            return None
        return LabelScores(self.targets[known] > 0, held(logits)[known]).to_json()

    def measures(self) -> dict[str, Any]:
        same = held(self.float_logits) == held(self.integer_logits)
        return {
            "float": self.scores(self.float_logits),
            "golden": self.scores(self.integer_logits),
            "agreement": float(same.mean()),
            "agreement_by_label": dict(zip(self.names, map(float, same.mean(axis=0)))),
            "changed_texts": int((~same).any(axis=1).sum()),
        }

    def measure_lines(self, values: dict[str, Any]) -> list[str]:
        lines, floats, integers = [], values["float"], values["golden"]
        if floats and integers:
            low, high = floats["exact_95"]
            lines.append(f"{'':{self.column}}{'float':>9} {'golden':>9} {'points':>8}")
            for key, name in (
                ("exact", "every label right"),
                ("micro_f1", "micro F1"),
                ("macro_f1", "macro F1"),
            ):
                note = f"   float 95 % interval {low:.2%} to {high:.2%}" if key == "exact" else ""
                cells = change(floats[key], integers[key])
                lines.append(f"{name:{self.column}}{cells}{note}")
            lines += self.lines_by_name(floats, integers)
        lines.append(
            f"agreement         {values['agreement']:.2%} of the labels, "
            f"{_differ(values['changed_texts'], self.inputs)}"
        )
        for name, share in values["agreement_by_label"].items():
            lines.append(f"{'':18}{name} {share:.2%}")
        return lines


@dataclass(frozen=True)
class NumberEvaluation(Outputs):
    """Of numbers. targets [n, C], not a number where there is none.

    function: what the outputs go through, as the spec of the model says.
    """

    COUNTED: ClassVar[str] = "correlation"

    targets: NDArray[np.float64]
    function: str = IDENTITY

    @property
    def labelled(self) -> NDArray[np.bool_]:
        return _known(self.targets)

    def scores(self, numbers: Doubles) -> dict[str, Any] | None:
        """Of each output against its targets; None where there are none."""
        known = self.labelled
        if not known.any():
            return None
        found, right = numbers[known].astype(np.float64), self.targets[known]
        return {
            name: {
                "pearson": pearson(found[:, i], right[:, i]),
                "spearman": spearman(found[:, i], right[:, i]),
                "mse": float(np.square(found[:, i] - right[:, i]).mean()),
            }
            for i, name in enumerate(self.names)
        }

    def measures(self) -> dict[str, Any]:
        floats = through(self.function, self.float_logits.astype(np.float64))
        integers = through(self.function, self.scaled)
        return {
            "float": self.scores(floats),
            "golden": self.scores(integers),
            "golden_by_float": {
                name: {
                    "r2": float(determination(integers, floats)[i]),
                    "pearson": pearson(integers[:, i], floats[:, i]),
                    "mean_difference": float(np.abs(integers - floats)[:, i].mean()),
                    "float_deviation": float(floats[:, i].std()),
                }
                for i, name in enumerate(self.names)
            },
        }

    def difference_lines(self, _: dict[str, Any]) -> list[str]:
        """None: the numbers have units of their own."""
        return []

    def measure_lines(self, values: dict[str, Any]) -> list[str]:
        lines, floats, integers = [], values["float"], values["golden"]
        if floats and integers:
            lines.append(f"{'':18}{'float':>11} {'golden':>11} {'change':>11}")
            for name in self.names:
                for key in ("pearson", "spearman", "mse"):
                    a, b = floats[name][key], integers[name][key]
                    change = None if a is None or b is None else b - a
                    cells = f"{_decimal(a):>11} {_decimal(b):>11} {_decimal(change, '+'):>11}"
                    label = f"{key} {name}"
                    lines.append(f"{label:18}{cells}")
        for name, found in values["golden_by_float"].items():
            lines.append(
                f"golden by float   {name}: R^2 {found['r2']:.5f}, mean difference "
                f"{found['mean_difference']:.5f}, float's deviation {found['float_deviation']:.4f}"
            )
        return lines


def _known(targets: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which texts [n] have all their targets."""
    known: NDArray[np.bool_] = np.asarray(np.isfinite(targets).all(axis=1))
    return known


def _differ(number: int, things: str) -> str:
    return f"{counted(number, things)} {verb(number, 'differ')}"


def change(a: float | None, b: float | None) -> str:
    """Two shares and the points between them, as cells of a line."""
    return f"{percent(a):>9} {percent(b):>9} {points(a, b):>8}"


def _decimal(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.5f}"

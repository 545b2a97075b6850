"""Outputs of both models for the same texts, compared with each other and with the labels."""

from dataclasses import dataclass
from typing import Any

from cli.words import counted, verb

import numpy as np
from numpy.typing import NDArray

from quant.measure.compare import TensorError, table
from quant.measure.tasks import TABLE, Task, Values, known
from quant.model.spec import CLASSIFICATION, IDENTITY, TEXTS
from quant.quantize.decode import Doubles


@dataclass(frozen=True)
class Evaluation:
    """A row of outputs for each text, or for each word where these have a class.

    Attributes
    ----------
    float_logits, integer_logits
        float32 and int64 [n, C], the second in units of logit_scale: a number, or one each output.
    errors
        By tensor, over the ``traced`` first texts.
    labels
        What is right, as `Task.targets` gives it.
    inputs
        What the texts are.
    function
        What the outputs of a regression go through.
    text, texts, cut
        Of words: which text each is of [n], ascending, how many texts there are, and the words that
        no token is left of.
    """

    names: tuple[str, ...]
    float_logits: NDArray[np.float32]
    integer_logits: NDArray[np.int64]
    logit_scale: float | Doubles
    tokens: int
    errors: dict[str, TensorError]
    traced: int
    labels: NDArray[Any]
    task: Task = TABLE[CLASSIFICATION]
    inputs: str = TEXTS
    function: str = IDENTITY
    text: NDArray[np.int64] | None = None
    texts: int = 0
    cut: int = 0

    @property
    def scaled(self) -> Doubles:
        """The integer logits in the units of the float ones."""
        return self.integer_logits * self.logit_scale

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """The rows that have a label [n]."""
        return known(self.labels)

    @property
    def float_classes(self) -> NDArray[Any]:
        return self.task.decide(self.float_logits)

    @property
    def integer_classes(self) -> NDArray[Any]:
        return self.task.decide(self.integer_logits)

    @property
    def agreement(self) -> float:
        return float(np.mean(self.float_classes == self.integer_classes))

    @property
    def unit(self) -> str:
        """What a row is of, in words."""
        return self.inputs if self.task.row == TEXTS else self.task.row

    def scores(self, decided: NDArray[Any]) -> Values | None:
        """What one model says against the labels; None without any."""
        rows = self.labelled
        return self.task.scores(self, decided[rows], self.labels[rows]) if rows.any() else None

    def changed(self) -> list[tuple[int, str, str]]:
        """The texts on which both models differ, and what float and golden say."""
        return [
            (i if self.text is None else int(self.text[i]), floats, integers)
            for i, floats, integers in self.task.changed(self)
        ]

    def to_json(self) -> dict[str, Any]:
        difference = np.abs(self.scaled - self.float_logits)
        steps = difference / self.logit_scale
        return {
            self.task.row: len(self.float_logits),
            f"labelled_{self.task.row}": int(self.labelled.sum()),
            "tokens": self.tokens,
            "classes": list(self.names),
            **self.task.measures(self),
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
        values, name = self.to_json(), self.task.score
        rows, labelled = values[self.task.row], values[f"labelled_{self.task.row}"]
        looked = [(values["texts"], self.inputs), (self.tokens, "tokens")]
        looked += [] if self.text is None else [(rows, self.unit)]
        cut = f" ({self.cut:,} more cut)" if self.cut else ""
        lines = [", ".join(counted(*one) for one in looked) + cut]
        if labelled < rows:
            over = f"{name} is over {labelled:,}" if labelled else f"so there is no {name}"
            lacking, have = rows - labelled, verb(rows - labelled, "have")
            lines.append(f"{lacking:,} of {counted(rows, self.unit)} {have} no label: {over}")
        if not self.task.has_units:
            apart = values["logit_difference"]
            lines.append(
                f"logit difference  largest {apart['largest']:.4f} ({apart['largest_lsb']:,.0f} "
                f"LSB), mean {apart['mean']:.5f} ({apart['mean_lsb']:,.0f} LSB); the logits' "
                f"deviation is {apart['float_spread']:.3f}"
            )
        return "\n".join(lines + self.task.lines(self, values))

    def tensor_table(self) -> str:
        """The errors of the tensors; "" where none were compared."""
        over = counted(self.traced, self.inputs)
        return f"tensors over {over}, worst first\n{table(self.errors)}" if self.errors else ""

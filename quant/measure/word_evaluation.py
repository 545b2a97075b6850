"""Outputs of both models for the same words, of a model with a class for every token."""

from dataclasses import dataclass
from typing import Any, ClassVar

from cli.words import counted

import numpy as np
from numpy.typing import NDArray

from quant.measure.entities import scores, tagged
from quant.measure.evaluation import Evaluation, change
from quant.measure.metrics import Classes

UNCOUNTED = -2
"""Of a token with which no word begins; of a word without a tag it is -1."""


@dataclass(frozen=True)
class WordEvaluation(Evaluation):
    """Of classes of words, a row each: the first token of a word speaks for it.

    text [n]: which text a word is of, ascending. cut: words of which no token is left.
    """

    UNIT: ClassVar[str] = "words"

    text: NDArray[np.int64]
    texts: int
    cut: int

    def entity_scores(self, classes: Classes) -> dict[str, Any] | None:
        """Of the words that have a tag, as if the others were not there; None without tags."""
        if not tagged(self.names):
            return None
        ends = np.searchsorted(self.text, np.arange(1, self.texts))
        several = [np.split(part, ends) for part in (self.labels, classes)]
        known = [(a[a >= 0], b[a >= 0]) for a, b in zip(*several) if (a >= 0).any()]
        if not known:
            return None
        right, said = ([[self.names[one] for one in tags] for tags in part] for part in zip(*known))
        return scores(right, said)

    def measures(self) -> dict[str, Any]:
        entities = {
            name: self.entity_scores(classes)
            for name, classes in (("float", self.float_classes), ("golden", self.integer_classes))
        }
        return super().measures() | {
            "texts": self.texts,
            "cut_words": self.cut,
            "entities": entities if entities["float"] else None,
        }

    def counted(self, values: dict[str, Any]) -> str:
        cut = f" ({self.cut:,} more cut)" if self.cut else ""
        numbers = (self.texts, "texts"), (values["tokens"], "tokens"), (values["words"], "words")
        return ", ".join(counted(*one) for one in numbers) + cut

    def changed(self) -> list[tuple[int, str, str]]:
        return [(int(self.text[i]), a, b) for i, a, b in super().changed()]

    def measure_lines(self, values: dict[str, Any]) -> list[str]:
        lines = super().measure_lines(values)
        if not values["entities"]:
            return lines
        floats, integers = (values["entities"][name] for name in ("float", "golden"))
        lines.append(f"entities          {floats['entities']:,}, of which all words must be right")
        for key, name in (("precision", "precision"), ("recall", "recall"), ("f1", "micro F1")):
            lines.append(f"{'  ' + name:18}{change(floats[key], integers[key])}")
        kinds = dict.fromkeys([*floats["f1_by_type"], *integers["f1_by_type"]])
        for kind in kinds:
            shares = (found["f1_by_type"].get(kind) for found in (floats, integers))
            lines.append(f"{'  F1 ' + kind:18}{change(*shares)}")
        return lines

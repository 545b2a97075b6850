"""What the outputs of a model mean: for each task how they are decided, shown and scored.

classification: the label of the largest logit, and softmax(logits). Several labels at once: those
whose logit is above 0, and sigmoid(logit) of each. Regression: the outputs in the units of the
float model. A class for every token: for each word the class of its first token. Questions: the
characters of the text that answer them. Embeddings: their direction.

Scales are positive, so golden's integers alone decide. `TABLE` is the only place that looks at the
task of a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from cli.words import counted, verb

import numpy as np
from numpy.typing import NDArray

from quant.foreign.tokenizer import Tokens
from quant.measure import entities, vectors
from quant.measure.compare import TensorError
from quant.measure.compare import table as tensor_table
from quant.measure.metrics import (
    class_scores,
    confusion_matrix,
    determination,
    label_scores,
    mcnemar,
    pearson,
    percent,
    points,
    spearman,
)
from quant.model.float_model import softmax
from quant.model.spec import (
    CLASSIFICATION,
    EMBEDDING,
    IDENTITY,
    MULTI_LABEL,
    QUESTION_ANSWERING,
    REGRESSION,
    TEXTS,
    TOKEN_CLASSIFICATION,
    EncoderSpec,
)
from quant.texts.data_file import Review

Array = NDArray[Any]
Numbers = NDArray[np.floating[Any]]
Values = dict[str, Any]
"""Figures or an answer, as JSON holds them."""
Texts = Sequence[Tokens]
Reviews = Sequence[Review]

ANSWER = 15
"""The most tokens that an answer to a question has."""
OUTSIDE = "O"
"""The tag of a word that belongs to nothing (Ramshaw and Marcus, 1995)."""
UNCOUNTED = -2
"""The label of a token with which no word begins; that of a word without a tag is -1."""


def sigmoid(x: Numbers) -> Numbers:
    """1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def through(function: str, outputs: Numbers) -> Numbers:
    """The numbers of a regression: its outputs through the function that its spec names."""
    return outputs if function == IDENTITY else sigmoid(outputs)


def span(tokens: Tokens, logits: Array) -> tuple[int, int]:
    """The first and the last token of the likeliest answer, by its logits [L, 2].

    It has the largest sum of start and end, lies in the text, and is at most ANSWER tokens long, as
    the pipeline of `transformers` chooses it. The first of equal sums wins.
    """
    places = np.array([place for place, _, _ in tokens.context])
    start, end = logits[places, 0], logits[places, 1]
    ahead = np.arange(len(places)) - np.arange(len(places))[:, None]
    sums = np.where((ahead >= 0) & (ahead < ANSWER), start[:, None] + end, -np.inf)
    first, last = np.unravel_index(int(sums.argmax()), sums.shape)
    return int(places[first]), int(places[last])


def texts_of(spec: EncoderSpec, rows: Array, texts: Sequence[Tokens]) -> Sequence[Array]:
    """Golden's outputs [n, C], of texts one after the other, by the text: [C], or [L, C]."""
    if not spec.every_token:
        return list(rows)
    return np.split(rows, np.cumsum([len(tokens.ids) for tokens in texts])[:-1])


def known(targets: Array) -> NDArray[np.bool_]:
    """The rows [n] that have a label, as `Task.targets` gives it."""
    return np.asarray(targets >= 0 if targets.ndim == 1 else np.isfinite(targets).all(axis=1))


class Task:
    """One of several classes for each text; the other tasks change what differs.

    Attributes
    ----------
    key
        What `answer` calls what is decided.
    measure, error
        The names of what `likeness` and `distance` measure.
    decided
        What both models decide, in words that follow the inputs.
    kind, titles
        What an output is called in tables, and its columns.
    score, right
        What is counted of the rows that have a label, and what a row that is right has.
    row
        What a row of outputs stands for.
    has_units
        The outputs are numbers with units of their own, not logits.
    """

    key = "class"
    measure = "agreement"
    error = "error of the logits"
    decided = ""
    kind = "class"
    titles: tuple[str, ...] = ("logit", "probability")
    score = right = "accuracy"
    row = TEXTS
    has_units = False

    def answer(self, spec: EncoderSpec, tokens: Tokens, logits: Numbers, codes: Array) -> Values:
        """The outputs of a text as plain JSON values, decided by the codes.

        {"class", "logits", "probabilities"}, the last two by the names of the classes.
        """
        return {"class": spec.labels[int(codes.argmax())]} | _shares(spec, logits, softmax(logits))

    def numbers(self, spec: EncoderSpec, tokens: Tokens, outputs: Array) -> Any:
        """Logits or integers as JSON values."""
        return dict(zip(spec.labels, outputs.tolist(), strict=True))

    def said(self, values: Values) -> str:
        """An answer in a few words."""
        return str(values[self.key])

    def cells(self, values: Values, name: str) -> list[str]:
        """The columns of an output in `table`."""
        return [f"{values['logits'][name]:.4f}", f"{values['probabilities'][name]:.2%}"]

    def table(self, spec: EncoderSpec, values: Values, floats: Values | None = None) -> list[str]:
        """Lines of an answer with its "integer_logits", with the float model's beside it."""
        both = [one for one in (values, floats) if one]
        titles = [*self.titles, *([f"float {self.titles[0]}", *self.titles[1:]] if floats else [])]
        lines = [[self.kind, "integer logit", *titles]]
        for name in spec.labels:
            cells = chain.from_iterable(self.cells(one, name) for one in both)
            lines.append([name, str(values["integer_logits"][name]), *cells])
        width = max(len(self.kind), 5, *map(len, spec.labels))
        return [
            f"{name:{width}}{logit:>14}"
            + "".join(f" {cell:>{w}}" for cell, w in zip(rest, (9, 12, 12, 12)))
            for name, logit, *rest in lines
        ]

    def label(self, spec: EncoderSpec, review: Review, tokens: Tokens) -> Any:
        """What a file says of a text, in the words of `answer`; None where it says nothing."""
        return None if review.label is None else spec.labels[review.label]

    def distance(self, logits: Numbers, exact: Numbers) -> float:
        """The mean difference of golden's logits [n, C] from the float ones."""
        return float(np.abs(logits - exact).mean())

    def likeness(self, spec: EncoderSpec, texts: Texts, codes: Array, exact: Array) -> float:
        """How alike golden's outputs [n, C] are to the float ones: at most 1."""
        return float(np.mean(self.decide(codes) == self.decide(exact)))

    def decide(self, outputs: Array) -> Array:
        """What each row of outputs says [n, ...]."""
        return np.asarray(outputs.argmax(axis=1))

    def targets(self, spec: EncoderSpec, reviews: Reviews, texts: Texts) -> Array:
        """What a file says is right of each row: a class [n], -1 for none."""
        return np.array([-1 if one.label is None else one.label for one in reviews], np.int64)

    def accuracy(self, outputs: Array, targets: Array) -> float | None:
        """The share of the rows with a label that are wholly right; None without labels."""
        labelled = known(targets)
        same = self.decide(outputs)[labelled] == targets[labelled]
        return float(same.reshape(len(same), -1).all(axis=1).mean()) if len(same) else None

    def both(self, e: Evaluation) -> tuple[Array, Array]:
        """What float and golden say."""
        return self.decide(e.float_logits), self.decide(e.integer_logits)

    def measures(self, e: Evaluation) -> Values:
        """The figures of an evaluation: float, golden, and how they agree."""
        floats, integers = self.both(e)
        scores = {"float": e.scores(floats), "golden": e.scores(integers)}
        return scores | self.compared(e, floats, integers)

    def scores(self, e: Evaluation, decided: Array, right: Array) -> Values:
        """Of what one model says, for the rows that have a label."""
        return class_scores(confusion_matrix(right, decided, len(e.names)))

    def compared(self, e: Evaluation, floats: Array, integers: Array) -> Values:
        """How both models agree, which of the two is right where not, and McNemar's p."""
        flips: Values = {"changed": int(np.sum(floats != integers))}
        if e.labelled.any():
            right = [(classes == e.labels)[e.labelled] for classes in (floats, integers)]
            lost, won = int(np.sum(right[0] & ~right[1])), int(np.sum(~right[0] & right[1]))
            flips |= {"only_float_right": lost, "only_golden_right": won}
            flips["mcnemar_p"] = mcnemar(lost, won)
        return {"agreement": float(np.mean(floats == integers)), "flips": flips}

    def lines(self, e: Evaluation, values: Values) -> list[str]:
        """`measures` in words."""
        floats, integers, flips = values["float"], values["golden"], values["flips"]
        lines = _scores_table(e, values, {"accuracy": "accuracy"})
        width = max(14, *map(len, e.names))
        for key, title, cell in (
            ("confusion", "confusion (row: true class)", "{:,}".format),
            ("confusion_shares", "confusion in percent of the true class", percent),
        ):
            if not floats:
                break
            lines.append(title)
            for name, *rows in zip(e.names, floats[key], integers[key]):
                a, b = ("".join(f"{cell(value):>8}" for value in row) for row in rows)
                lines.append(f"  {name:{width}}{a}    |{b}")
        differ = _differ(flips["changed"], e.unit)
        lines.append(f"agreement         {values['agreement']:.2%}, {differ}")
        if "mcnemar_p" in flips:
            lines.append(
                f"{'':18}only float right {flips['only_float_right']:,}, only golden right "
                f"{flips['only_golden_right']:,}, McNemar p = {flips['mcnemar_p']:.3f}"
            )
        return lines

    def called(self, names: Sequence[str], decision: Any) -> str:
        """A decision in words."""
        return names[decision]

    def changed(self, e: Evaluation) -> list[tuple[int, str, str]]:
        """The rows on which both models differ, and what float and golden say."""
        return [
            (i, self.called(e.names, a), self.called(e.names, b))
            for i, (a, b) in enumerate(zip(*self.both(e), strict=True))
            if np.any(a != b)
        ]


class Labels(Task):
    """Several labels at once."""

    key, decided, kind = "labels", "' labels", "label"
    score, right = "F1", "every label right"

    def answer(self, spec: EncoderSpec, tokens: Tokens, logits: Numbers, codes: Array) -> Values:
        """{"labels", "logits", "probabilities"}, the last two by the names of the labels."""
        labels = [name for name, holds in zip(spec.labels, codes > 0) if holds]
        return {"labels": labels} | _shares(spec, logits, sigmoid(logits))

    def said(self, values: Values) -> str:
        return ", ".join(values["labels"]) or "no label"

    def label(self, spec: EncoderSpec, review: Review, tokens: Tokens) -> Any:
        if review.targets is None:
            return None
        return [name for name, holds in zip(spec.labels, review.targets) if holds]

    def decide(self, outputs: Array) -> Array:
        return np.asarray(outputs > 0)

    def targets(self, spec: EncoderSpec, reviews: Reviews, texts: Texts) -> Array:
        """A number for each output [n, C], NaN for a text without labels."""
        unknown = (np.nan,) * len(spec.labels)
        return np.array([unknown if one.targets is None else one.targets for one in reviews], float)

    def scores(self, e: Evaluation, decided: Array, right: Array) -> Values:
        return label_scores(right > 0, decided)

    def compared(self, e: Evaluation, floats: Array, integers: Array) -> Values:
        same = floats == integers
        return {
            "agreement": float(same.mean()),
            "agreement_by_label": dict(zip(e.names, map(float, same.mean(axis=0)))),
            "changed_texts": int((~same).any(axis=1).sum()),
        }

    def lines(self, e: Evaluation, values: Values) -> list[str]:
        titles = {"exact": self.right, "micro_f1": "micro F1", "macro_f1": "macro F1"}
        lines = _scores_table(e, values, titles)
        differ = _differ(values["changed_texts"], e.inputs)
        lines.append(f"agreement         {values['agreement']:.2%} of the labels, {differ}")
        return lines + [
            f"{'':18}{name} {share:.2%}" for name, share in values["agreement_by_label"].items()
        ]

    def called(self, names: Sequence[str], decision: Any) -> str:
        return "+".join(name for name, holds in zip(names, decision) if holds) or "none"


class Regression(Labels):
    """Numbers."""

    key = "values"
    measure = "fit"
    error = "error in deviations"
    kind, titles = "output", ("value",)
    score = "correlation"
    has_units = True

    def answer(self, spec: EncoderSpec, tokens: Tokens, logits: Numbers, codes: Array) -> Values:
        """{"values"} by the names of the outputs."""
        numbers = map(float, through(spec.function, logits))
        return {"values": dict(zip(spec.labels, numbers, strict=True))}

    def said(self, values: Values) -> str:
        return ", ".join(f"{name} {value:.4f}" for name, value in values["values"].items())

    def cells(self, values: Values, name: str) -> list[str]:
        return [f"{values['values'][name]:.4f}"]

    def label(self, spec: EncoderSpec, review: Review, tokens: Tokens) -> Any:
        return None if review.targets is None else dict(zip(spec.labels, review.targets))

    def distance(self, logits: Numbers, exact: Numbers) -> float:
        """In standard deviations of each number, since their units differ."""
        deviation = exact.std(axis=0)
        return float((np.abs(logits - exact) / np.where(deviation > 0, deviation, 1)).mean())

    def likeness(self, spec: EncoderSpec, texts: Texts, codes: Array, exact: Array) -> float:
        return float(determination(codes, exact).min())

    def both(self, e: Evaluation) -> tuple[Array, Array]:
        floats = e.float_logits.astype(np.float64)
        return through(e.function, floats), through(e.function, e.scaled)

    def scores(self, e: Evaluation, decided: Array, right: Array) -> Values:
        return {
            name: {
                "pearson": pearson(a, b),
                "spearman": spearman(a, b),
                "mse": float(np.square(a - b).mean()),
            }
            for name, a, b in zip(e.names, decided.T, right.T)
        }

    def compared(self, e: Evaluation, floats: Array, integers: Array) -> Values:
        fit = determination(integers, floats)
        return {
            "golden_by_float": {
                name: {
                    "r2": float(fit[i]),
                    "pearson": pearson(integers[:, i], floats[:, i]),
                    "mean_difference": float(np.abs(integers - floats)[:, i].mean()),
                    "float_deviation": float(floats[:, i].std()),
                }
                for i, name in enumerate(e.names)
            }
        }

    def lines(self, e: Evaluation, values: Values) -> list[str]:
        lines, floats, integers = [], values["float"], values["golden"]
        if floats:
            lines.append(f"{'':18}{'float':>11} {'golden':>11} {'change':>11}")
            for name in e.names:
                for key in ("pearson", "spearman", "mse"):
                    a, b = floats[name][key], integers[name][key]
                    change = None if a is None or b is None else b - a
                    cells = f"{_decimal(a):>11} {_decimal(b):>11} {_decimal(change, '+'):>11}"
                    lines.append(f"{f'{key} {name}':18}{cells}")
        return lines + [
            f"golden by float   {name}: R^2 {found['r2']:.5f}, mean difference "
            f"{found['mean_difference']:.5f}, float's deviation {found['float_deviation']:.4f}"
            for name, found in values["golden_by_float"].items()
        ]

    def changed(self, e: Evaluation) -> list[tuple[int, str, str]]:
        return []


class Words(Task):
    """A class for every token; the first token of a word speaks for it."""

    key, decided, row = "labels", "' tokens", "words"

    def answer(self, spec: EncoderSpec, tokens: Tokens, logits: Numbers, codes: Array) -> Values:
        """{"words", "labels", "probabilities", "logits"}: lists with an entry for each word."""
        logits, classes = logits[tokens.first], codes[tokens.first].argmax(axis=1)
        shares = softmax(logits)[np.arange(len(classes)), classes]
        return {
            "words": [tokens.spelling[word] for word in tokens.kept],
            "labels": [spec.labels[one] for one in classes],
            "probabilities": shares.astype(float).tolist(),
            "logits": logits.astype(float).tolist(),
        }

    def numbers(self, spec: EncoderSpec, tokens: Tokens, outputs: Array) -> Any:
        return outputs[tokens.first].tolist()

    def said(self, values: Values) -> str:
        """The words, with a label behind those that are not O."""
        pairs = zip(values["words"], values["labels"], strict=True)
        return " ".join(word if tag == OUTSIDE else f"{word}/{tag}" for word, tag in pairs)

    def table(self, spec: EncoderSpec, values: Values, floats: Values | None = None) -> list[str]:
        lines = [["word", "label", "probability"], *([word] for word in values["words"])]
        lines[0] += ["float label", "probability"] if floats else []
        for one in filter(None, (values, floats)):
            for line, tag, share in zip(lines[1:], one["labels"], one["probabilities"]):
                line += [tag, f"{share:.2%}"]
        widths = [max(map(len, column)) for column in zip(*lines)]
        return [
            "  ".join(
                cell.rjust(width) if number in (2, 4) else cell.ljust(width)
                for number, (cell, width) in enumerate(zip(line, widths))
            ).rstrip()
            for line in lines
        ]

    def label(self, spec: EncoderSpec, review: Review, tokens: Tokens) -> Any:
        """A list, None where the file says nothing of a word."""
        if review.words is None or not any(tag is not None for tag in review.tags):
            return None
        tags = [review.tags[word] for word in tokens.kept]
        return [None if tag is None else spec.labels[tag] for tag in tags]

    def targets(self, spec: EncoderSpec, reviews: Reviews, texts: Texts) -> Array:
        """[tokens of all texts], UNCOUNTED for a token with which no word begins."""
        found = []
        for review, tokens in zip(reviews, texts, strict=True):
            found.append(np.full(len(tokens.ids), UNCOUNTED, np.int64))
            tags = [-1 if tag is None else tag for tag in review.tags]
            tags = tags or [-1] * len(tokens.spelling)
            found[-1][tokens.first] = np.array(tags, np.int64)[tokens.kept]
        return np.concatenate(found)

    def measures(self, e: Evaluation) -> Values:
        named = zip(("float", "golden"), self.both(e))
        scores = {name: self._entities(e, classes) for name, classes in named}
        more = {"texts": e.texts, "cut_words": e.cut, "entities": scores}
        return super().measures(e) | more | ({} if scores["float"] else {"entities": None})

    def _entities(self, e: Evaluation, classes: Array) -> Values | None:
        """Over the words that have a tag, as if the others were not there; None without tags."""
        if not entities.tagged(e.names) or e.text is None:
            return None
        ends = np.searchsorted(e.text, np.arange(1, e.texts))
        several = [np.split(part, ends) for part in (e.labels, classes)]
        known = [(a[a >= 0], b[a >= 0]) for a, b in zip(*several) if (a >= 0).any()]
        if not known:
            return None
        return entities.scores(
            *([[e.names[one] for one in tags] for tags in part] for part in zip(*known))
        )

    def lines(self, e: Evaluation, values: Values) -> list[str]:
        lines = super().lines(e, values)
        if not values["entities"]:
            return lines
        both = [values["entities"][name] for name in ("float", "golden")]
        lines.append(f"entities          {both[0]['entities']:,}, of which all words must be right")
        for key, name in (("precision", "precision"), ("recall", "recall"), ("f1", "micro F1")):
            lines.append(f"{'  ' + name:18}{_change(*(found[key] for found in both))}")
        for kind in dict.fromkeys(chain.from_iterable(found["f1_by_type"] for found in both)):
            shares = (found["f1_by_type"].get(kind) for found in both)
            lines.append(f"{'  F1 ' + kind:18}{_change(*shares)}")
        return lines


class Answers(Task):
    """A question with a text that answers it."""

    key, decided = "answer", "' answers"

    def answer(self, spec: EncoderSpec, tokens: Tokens, logits: Numbers, codes: Array) -> Values:
        """{"answer", "begin", "end", "score"}: a part of the text, its characters [begin, end), and
        the product of the probabilities that it begins and ends there."""
        first, last = span(tokens, codes)
        characters = {place: (begin, end) for place, begin, end in tokens.context}
        places = list(characters)
        start, end = (softmax(logits[places, i]) for i in (0, 1))
        begin, past = characters[first][0], characters[last][1]
        score = float(start[places.index(first)] * end[places.index(last)])
        return {"answer": tokens.pair[begin:past], "begin": begin, "end": past, "score": score}

    def numbers(self, spec: EncoderSpec, tokens: Tokens, outputs: Array) -> Any:
        ends = zip(spec.labels, span(tokens, outputs))
        return {name: int(outputs[place, i]) for i, (name, place) in enumerate(ends)}

    def table(self, spec: EncoderSpec, values: Values, floats: Values | None = None) -> list[str]:
        beside = f", float {floats['score']:.2%}" if floats else ""
        place = f"characters {values['begin']} to {values['end']}"
        return [f"{place} of the text, probability {values['score']:.2%}{beside}"]

    def likeness(self, spec: EncoderSpec, texts: Texts, codes: Array, exact: Array) -> float:
        both = (texts_of(spec, rows, texts) for rows in (codes, exact))
        pairs = zip(texts, *both, strict=True)
        return float(np.mean([span(tokens, a) == span(tokens, b) for tokens, a, b in pairs]))


class Embeddings(Task):
    """Vectors, of which the direction counts."""

    measure = "cosine"
    error = "distance of the embeddings"

    def distance(self, logits: Numbers, exact: Numbers) -> float:
        return vectors.distance(logits, exact)

    def likeness(self, spec: EncoderSpec, texts: Texts, codes: Array, exact: Array) -> float:
        return float(vectors.cosines(codes, exact).mean())


TABLE: dict[str, Task] = {
    CLASSIFICATION: Task(),
    MULTI_LABEL: Labels(),
    REGRESSION: Regression(),
    TOKEN_CLASSIFICATION: Words(),
    QUESTION_ANSWERING: Answers(),
    EMBEDDING: Embeddings(),
}


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
    logit_scale: float | Array
    tokens: int
    errors: dict[str, TensorError]
    traced: int
    labels: Array
    task: Task = TABLE[CLASSIFICATION]
    inputs: str = TEXTS
    function: str = IDENTITY
    text: NDArray[np.int64] | None = None
    texts: int = 0
    cut: int = 0

    @property
    def scaled(self) -> Array:
        """The integer logits in the units of the float ones."""
        return self.integer_logits * self.logit_scale

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """The rows that have a label [n]."""
        return known(self.labels)

    @property
    def float_classes(self) -> Array:
        return self.task.decide(self.float_logits)

    @property
    def integer_classes(self) -> Array:
        return self.task.decide(self.integer_logits)

    @property
    def agreement(self) -> float:
        return float(np.mean(self.float_classes == self.integer_classes))

    @property
    def unit(self) -> str:
        """What a row is of, in words."""
        return self.inputs if self.task.row == TEXTS else self.task.row

    def scores(self, decided: Array) -> Values | None:
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
        return (
            f"tensors over {over}, worst first\n{tensor_table(self.errors)}" if self.errors else ""
        )


def task_of(spec: EncoderSpec) -> Task:
    return TABLE[spec.task]


def likeness(spec: EncoderSpec, texts: Texts, codes: Array, scale: Any, exact: Array) -> float:
    """How alike golden's integers [n, C], in units of the scale, are to the float outputs."""
    task = task_of(spec)
    return task.likeness(spec, texts, codes * scale if task.has_units else codes, exact)


def answer(
    spec: EncoderSpec, tokens: Tokens, logits: Numbers, codes: Array | None = None
) -> Values:
    """The outputs of a text, in the units of the float model, as `Task.answer` gives them.

    The codes, of which the logits are multiples, decide where they are given.
    """
    return task_of(spec).answer(spec, tokens, logits, logits if codes is None else codes)


def _shares(spec: EncoderSpec, logits: Numbers, shares: Numbers) -> Values:
    found = {"logits": logits, "probabilities": shares}
    return {
        key: dict(zip(spec.labels, map(float, values), strict=True))
        for key, values in found.items()
    }


def _scores_table(e: Evaluation, values: Values, overall: dict[str, str]) -> list[str]:
    """The measures of all rows, then those of each class or label; float beside golden."""
    floats, integers = values["float"], values["golden"]
    if not floats:
        return []
    column = max(18, *(len(f"precision {name}") for name in e.names))
    lines = [f"{'':{column}}{'float':>9} {'golden':>9} {'points':>8}"]
    for key, title in overall.items():
        interval = floats.get(f"{key}_95")
        note = "   float 95 % interval {:.2%} to {:.2%}".format(*interval) if interval else ""
        lines.append(f"{title:{column}}{_change(floats[key], integers[key])}{note}")
    return lines + [
        f"{f'{key} {name}':{column}}{_change(floats[key][i], integers[key][i])}"
        for i, name in enumerate(e.names)
        for key in ("precision", "recall", "f1")
    ]


def _differ(number: int, things: str) -> str:
    return f"{counted(number, things)} {verb(number, 'differ')}"


def _change(a: float | None, b: float | None) -> str:
    """Two shares and the points between them, as cells of a line."""
    return f"{percent(a):>9} {percent(b):>9} {points(a, b):>8}"


def _decimal(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{value:{sign}.5f}"

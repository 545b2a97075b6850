"""What the outputs of a model mean: for each task how they are decided, shown and scored.

classification: the label of the largest logit, and softmax(logits). Several labels at once: those
whose logit is above 0, and sigmoid(logit) of each. Regression: the outputs in the units of the
float model. A class for every token: for each word the class of its first token. Questions: the
characters of the text that answer them. Embeddings: their direction.

Scales are positive, so golden's integers alone decide. `TABLE` is the only place that looks at the
task of a model. `judge` says whether a model is good and what falls below the bounds, whose reasons
are in docs/numerics.md, "When a calibration is poor".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from quant.foreign.tokenizer import Tokens
from quant.measure import metrics
from quant.measure.compare import TensorError, worst_first
from quant.model.float_model import softmax
from quant.model.spec import CLASSIFICATION, IDENTITY, TASKS, TEXTS, EncoderSpec
from quant.texts.data_file import Review

Array = NDArray[Any]
Numbers = NDArray[np.floating[Any]]
Values = dict[str, Any]
"""Figures or an answer, as JSON holds them."""
Texts = Sequence[Tokens]

ANSWER = 15
"""The most tokens that an answer to a question has."""
UNCOUNTED = -2
"""The label of a token with which no word begins; that of a word without a tag is -1."""

SQNR_DB, AGREEMENT = 15.0, 0.97
BOUNDS = {"agreement": AGREEMENT, "cosine": 0.99, "fit": 0.99}
"""By what `Task.likeness` measures."""
NAMED_TENSORS, NAMED_CHANNELS = 5, 4
ADVICE = "inputs like those that the model will see (--data), more (--samples), --remedies all"
_SENTENCES = {
    "agreement": "golden and float agree on {0:.2%} of {1:,} {2}{3}",
    "cosine": "golden's mean cosine with float is {0:.4f} on {1:,} {2}",
    "fit": "golden's numbers explain {0:.4f} of the variance of float's on {1:,} {2}",
}


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


@dataclass(frozen=True)
class Evaluation:
    """A row of outputs [n, C] for each text, or for each word where these have a class.

    logit_scale: of the integer logits, a number, or one each output. errors: by tensor, over the
    ``traced`` first texts. labels: what is right, as `Task.targets` gives it.
    """

    spec: EncoderSpec
    float_logits: NDArray[np.float32]
    integer_logits: NDArray[np.int64]
    logit_scale: float | Array
    errors: dict[str, TensorError]
    traced: int
    labels: Array
    texts: Texts

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """The rows that have a label [n]."""
        return known(self.labels)

    def to_json(self) -> Values:
        """All figures: how right each model is (None without labels), and how they agree."""
        task, rows = task_of(self.spec), self.labelled
        both = task.both(self)
        score = partial(task.scores, self, right=self.labels[rows])
        floats, golden = (score(x[rows]) if rows.any() else None for x in both)
        difference = np.abs(self.integer_logits * self.logit_scale - self.float_logits)
        steps = difference / self.logit_scale
        return {
            task.row: len(self.float_logits),
            f"labelled_{task.row}": int(rows.sum()),
            "tokens": sum(len(tokens.ids) for tokens in self.texts),
            "classes": list(self.spec.labels),
            "float": floats,
            "golden": golden,
            **task.compared(self, *both),
            "logit_difference": {
                "largest": float(difference.max()),
                "mean": float(difference.mean()),
                "lsb": np.asarray(self.logit_scale).tolist(),
                "largest_lsb": float(steps.max()),
                "mean_lsb": float(steps.mean()),
                "float_spread": float(self.float_logits.std()),
            },
            "traced_texts": self.traced,
            "tensors": {name: error.to_json() for name, error in worst_first(self.errors)},
        }


class Task:
    """One of several classes for each text; the other tasks change what differs.

    key: what `answer` calls what is decided. measure, error: the names of what `likeness` and
    `distance` measure. decided: what both models decide, in words that follow the inputs. row: what
    a row of outputs stands for. has_units: the outputs are numbers with units of their own.
    """

    key = "class"
    measure = "agreement"
    error = "error of the logits"
    decided = ""
    row = TEXTS
    has_units = False

    def decide(self, outputs: Array) -> Array:
        """What each row of outputs says [n, ...]."""
        return np.asarray(outputs.argmax(axis=-1))

    def named(self, names: Sequence[str], decision: Any) -> Any:
        """A decision, or a label of a file, as JSON holds it."""
        return names[decision]

    def shares(self, logits: Numbers) -> Numbers:
        """The probabilities of logits."""
        return softmax(logits)

    def answer(self, spec: EncoderSpec, tokens: Tokens, logits: Numbers, codes: Array) -> Values:
        """The outputs of a text, in the units of the float model and decided by the codes.

        What is decided by `key`, and "logits" and "probabilities" by the names of the outputs.
        """
        numbers = {"logits": logits, "probabilities": self.shares(logits)}
        return {self.key: self.named(spec.labels, self.decide(codes))} | {
            key: dict(zip(spec.labels, map(float, values), strict=True))
            for key, values in numbers.items()
        }

    def numbers(self, spec: EncoderSpec, tokens: Tokens, outputs: Array) -> Any:
        """Logits or integers as JSON values."""
        return dict(zip(spec.labels, outputs.tolist(), strict=True))

    def said(self, values: Values) -> str:
        """An answer in a few words."""
        found = values[self.key]
        return found if isinstance(found, str) else ", ".join(found) or "no label"

    def label(self, spec: EncoderSpec, review: Review, tokens: Tokens) -> Any:
        """What a file says of a text, in the words of `answer`; None where it says nothing."""
        right = self.targets(spec, [review], [tokens])
        return self.named(spec.labels, right[0]) if known(right).any() else None

    def targets(self, spec: EncoderSpec, reviews: Sequence[Review], texts: Texts) -> Array:
        """What a file says is right of each row: a class [n], -1 for none."""
        return np.array([-1 if one.label is None else one.label for one in reviews], np.int64)

    def distance(self, logits: Numbers, exact: Numbers) -> float:
        """The mean difference of golden's logits [n, C] from the float ones."""
        return float(np.abs(logits - exact).mean())

    def likeness(self, spec: EncoderSpec, texts: Texts, codes: Array, exact: Array) -> float:
        """How alike golden's outputs [n, C] are to the float ones: at most 1."""
        return float(np.mean(self.decide(codes) == self.decide(exact)))

    def accuracy(self, outputs: Array, targets: Array) -> float | None:
        """The share of the rows with a label that are wholly right; None without labels."""
        labelled = known(targets)
        same = self.decide(outputs)[labelled] == targets[labelled]
        return float(same.reshape(len(same), -1).all(axis=1).mean()) if len(same) else None

    def both(self, e: Evaluation) -> tuple[Array, Array]:
        """What float and golden say."""
        return self.decide(e.float_logits), self.decide(e.integer_logits)

    def scores(self, e: Evaluation, decided: Array, right: Array) -> Values:
        """Of what one model says, for the rows that have a label."""
        return metrics.class_scores(metrics.confusion_matrix(right, decided, len(e.spec.labels)))

    def compared(self, e: Evaluation, floats: Array, integers: Array) -> Values:
        """How both models agree, which of the two is right where not, and McNemar's p."""
        flips: Values = {"changed": int(np.sum(floats != integers))}
        if e.labelled.any():
            right = [(classes == e.labels)[e.labelled] for classes in (floats, integers)]
            lost, won = int(np.sum(right[0] & ~right[1])), int(np.sum(~right[0] & right[1]))
            flips |= {"only_float_right": lost, "only_golden_right": won}
            flips["mcnemar_p"] = metrics.mcnemar(lost, won)
        return {"agreement": float(np.mean(floats == integers)), "flips": flips}


class Labels(Task):
    """Several labels at once."""

    key, decided = "labels", "' labels"

    def decide(self, outputs: Array) -> Array:
        return np.asarray(outputs > 0)

    def named(self, names: Sequence[str], decision: Any) -> Any:
        return [name for name, holds in zip(names, decision, strict=True) if holds]

    def shares(self, logits: Numbers) -> Numbers:
        return np.asarray(expit(logits))

    def targets(self, spec: EncoderSpec, reviews: Sequence[Review], texts: Texts) -> Array:
        """A number for each output [n, C], NaN for a text without labels."""
        unknown = (np.nan,) * len(spec.labels)
        return np.array([unknown if one.targets is None else one.targets for one in reviews], float)

    def scores(self, e: Evaluation, decided: Array, right: Array) -> Values:
        return metrics.label_scores(right > 0, decided)

    def compared(self, e: Evaluation, floats: Array, integers: Array) -> Values:
        same = floats == integers
        return {
            "agreement": float(same.mean()),
            "agreement_by_label": dict(zip(e.spec.labels, map(float, same.mean(axis=0)))),
            "changed_texts": int((~same).any(axis=1).sum()),
        }


class Regression(Labels):
    """Numbers."""

    key = "values"
    measure = "fit"
    error = "error in deviations"
    has_units = True

    def named(self, names: Sequence[str], decision: Any) -> Any:
        return dict(zip(names, map(float, decision), strict=True))

    def through(self, spec: EncoderSpec, outputs: Numbers) -> Numbers:
        """The numbers: the outputs through the function that the spec names."""
        return outputs if spec.function == IDENTITY else np.asarray(expit(outputs))

    def answer(self, spec: EncoderSpec, tokens: Tokens, logits: Numbers, codes: Array) -> Values:
        """{"values"} by the names of the outputs."""
        return {"values": self.named(spec.labels, self.through(spec, logits))}

    def said(self, values: Values) -> str:
        return ", ".join(f"{name} {value:.4f}" for name, value in values["values"].items())

    def distance(self, logits: Numbers, exact: Numbers) -> float:
        """In standard deviations of each number, since their units differ."""
        deviation = exact.std(axis=0)
        return float((np.abs(logits - exact) / np.where(deviation > 0, deviation, 1)).mean())

    def likeness(self, spec: EncoderSpec, texts: Texts, codes: Array, exact: Array) -> float:
        return float(metrics.determination(codes, exact).min())

    def both(self, e: Evaluation) -> tuple[Array, Array]:
        floats, integers = e.float_logits.astype(np.float64), e.integer_logits * e.logit_scale
        return self.through(e.spec, floats), self.through(e.spec, integers)

    def scores(self, e: Evaluation, decided: Array, right: Array) -> Values:
        return {
            name: {
                "pearson": metrics.pearson(a, b),
                "spearman": metrics.spearman(a, b),
                "mse": float(np.square(a - b).mean()),
            }
            for name, a, b in zip(e.spec.labels, decided.T, right.T)
        }

    def compared(self, e: Evaluation, floats: Array, integers: Array) -> Values:
        fit = metrics.determination(integers, floats)
        return {
            "golden_by_float": {
                name: {
                    "r2": float(fit[i]),
                    "pearson": metrics.pearson(integers[:, i], floats[:, i]),
                    "mean_difference": float(np.abs(integers - floats)[:, i].mean()),
                    "float_deviation": float(floats[:, i].std()),
                }
                for i, name in enumerate(e.spec.labels)
            }
        }


class Words(Task):
    """A class for every token; the first token of a word speaks for it."""

    key, decided, row = "labels", "' tokens", "words"

    def answer(self, spec: EncoderSpec, tokens: Tokens, logits: Numbers, codes: Array) -> Values:
        """{"words", "labels", "probabilities", "logits"}: lists with an entry for each word."""
        logits, classes = logits[tokens.first], self.decide(codes[tokens.first])
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
        return " ".join(word if tag == metrics.OUTSIDE else f"{word}/{tag}" for word, tag in pairs)

    def label(self, spec: EncoderSpec, review: Review, tokens: Tokens) -> Any:
        """A list, None where the file says nothing of a word."""
        right = self.targets(spec, [review], [tokens])
        tags = [spec.labels[tag] if tag >= 0 else None for tag in right[tokens.first]]
        return tags if known(right).any() else None

    def targets(self, spec: EncoderSpec, reviews: Sequence[Review], texts: Texts) -> Array:
        """[tokens of all texts], UNCOUNTED for a token with which no word begins."""
        found = []
        for review, tokens in zip(reviews, texts, strict=True):
            tags = review.tags or (None,) * len(tokens.spelling)
            found.append(np.full(len(tokens.ids), UNCOUNTED, np.int64))
            found[-1][tokens.first] = [-1 if tags[i] is None else tags[i] for i in tokens.kept]
        return np.concatenate(found)

    def compared(self, e: Evaluation, floats: Array, integers: Array) -> Values:
        """Of the entities None where no word has a tag, or the classes are no such tags."""
        scores = {"float": self._entities(e, floats), "golden": self._entities(e, integers)}
        cut = sum(len(tokens.begins) - len(tokens.kept) for tokens in e.texts)
        more = {"texts": len(e.texts), "cut_words": cut}
        found = super().compared(e, floats, integers)
        return found | more | {"entities": scores if scores["float"] else None}

    def _entities(self, e: Evaluation, classes: Array) -> Values | None:
        """Over the words that have a tag, as if the others were not there; None without tags."""
        names = np.array(e.spec.labels)
        if not metrics.tagged(e.spec.labels) or not e.labelled.any():
            return None
        text = np.repeat(np.arange(len(e.texts)), [len(tokens.kept) for tokens in e.texts])
        ends = np.flatnonzero(np.diff(text[e.labelled])) + 1
        several = (np.split(names[part[e.labelled]], ends) for part in (e.labels, classes))
        return metrics.entity_scores(*([part.tolist() for part in parts] for parts in several))


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

    def likeness(self, spec: EncoderSpec, texts: Texts, codes: Array, exact: Array) -> float:
        both = (texts_of(spec, rows, texts) for rows in (codes, exact))
        pairs = zip(texts, *both, strict=True)
        return float(np.mean([span(tokens, a) == span(tokens, b) for tokens, a, b in pairs]))


class Embeddings(Task):
    """Vectors, of which the direction counts."""

    measure = "cosine"
    error = "distance of the embeddings"

    def distance(self, logits: Numbers, exact: Numbers) -> float:
        return metrics.distance(logits, exact)

    def likeness(self, spec: EncoderSpec, texts: Texts, codes: Array, exact: Array) -> float:
        return float(metrics.cosines(codes, exact).mean())


_KINDS = (Task, Embeddings, Labels, Answers, Regression, Words)
TABLE: dict[str, Task] = {name: kind() for name, kind in zip(TASKS, _KINDS, strict=True)}


def task_of(spec: EncoderSpec) -> Task:
    return TABLE[spec.task]


def likeness(spec: EncoderSpec, texts: Texts, codes: Array, scale: Any, exact: Array) -> float:
    """How alike golden's integers [n, C], in units of the scale, are to the float outputs."""
    task = task_of(spec)
    return task.likeness(spec, texts, codes * scale if task.has_units else codes, exact)


def judge(
    errors: Mapping[str, TensorError],
    likeness: float,
    texts: int,
    task: str = CLASSIFICATION,
    inputs: str = TEXTS,
) -> dict[str, Any]:
    """The verdict on a model by the errors of its tensors and its likeness to the float model.

    likeness: as `Task.likeness` measures it on so many texts. inputs: what these are
    (EncoderSpec.inputs). Given are "good"; "findings", what is below its bound, a sentence each:
    the agreement first, then tensors, worst first, then those with outlier channels, a likely
    cause; "summary", what was measured beside its bounds; and the "bounds".
    """
    row = TABLE[task]
    alike = _SENTENCES[row.measure].format(likeness, texts, inputs, row.decided)
    findings, bound = [], BOUNDS[row.measure]
    if likeness < bound:
        shown = f"{bound:.0%}" if row.measure == "agreement" else str(bound)
        findings.append(f"{alike}: below {shown}")
    poor = sorted((error.sqnr, name) for name, error in errors.items() if error.sqnr < SQNR_DB)
    for sqnr, name in poor[:NAMED_TENSORS]:
        findings.append(f"{name}: SQNR {sqnr:.1f} dB, below {SQNR_DB:.0f}: {cause(errors[name])}")
    if len(poor) > NAMED_TENSORS:
        findings.append(f"{len(poor) - NAMED_TENSORS} more tensors are below {SQNR_DB:.0f} dB")
    if findings:
        # Much signal in one channel gives a tensor a high SQNR, though the others have no codes.
        reach = [(e.outliers()[0][1], name) for name, e in errors.items() if e.outliers()]
        hidden = [name for _, name in sorted(reach, reverse=True) if errors[name].sqnr >= SQNR_DB]
        findings += [f"{name}: {cause(errors[name])}" for name in hidden[:NAMED_TENSORS]]
    summary = alike
    if errors:
        worst = min(errors, key=lambda name: errors[name].sqnr)
        full = max(errors, key=lambda name: errors[name].share)
        summary = (
            f"{alike}; the worst tensor, {worst}, has {errors[worst].sqnr:.1f} dB, where "
            f"{SQNR_DB:.0f} are enough; codes at their limits are at most "
            f"{errors[full].share:.2%} ({full}), and their error is in these figures"
        )
    bounds = {"sqnr_db": SQNR_DB, **BOUNDS}
    return {"good": not findings, "findings": findings, "summary": summary, "bounds": bounds}


def cause(error: TensorError) -> str:
    """What of a tensor stands out: channels that reach far, else codes at their limits."""
    if outliers := error.outliers():
        shown = ", ".join(f"{c} ({ratio:.0f}x)" for c, ratio in outliers[:NAMED_CHANNELS])
        rest = len(outliers) - NAMED_CHANNELS
        more = f" and {rest} more" if rest > 0 else ""
        return f"channels that reach far beyond the median one: {shown}{more}"
    return f"no channel stands out, {error.share:.2%} of the codes at their limits"

"""The answer of a model's outputs for one text, by the model's task, as the commands show it.

classification: the label of the largest logit, and softmax(logits). Several labels at once: those
whose logit is above 0, and sigmoid(logit) of each; since a scale is positive, the integers alone
decide. Regression: the outputs in the units of the float model. A class for every token: of each
word the class of the token with which it begins. Questions: the characters of the text that answer
them. An embedding has none of it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quant.foreign.tokenizer import Tokens
from quant.model.float_model import softmax
from quant.model.spec import (
    CLASSIFICATION,
    IDENTITY,
    MULTI_LABEL,
    QUESTION_ANSWERING,
    REGRESSION,
    TOKEN_CLASSIFICATION,
    EncoderSpec,
)
from quant.texts.data_file import Review

Numbers = NDArray[np.floating[Any]]

ANSWER = 15
"""Tokens that an answer to a question has at most."""

OUTSIDE = "O"
"""The tag of a word that belongs to nothing, in the schemes of Ramshaw and Marcus (1995) on."""

_KIND = {CLASSIFICATION: "class", MULTI_LABEL: "label", REGRESSION: "output"}
"""What one output of each task is called."""


def sigmoid(x: Numbers) -> Numbers:
    """1 / (1 + exp(-x)), of which no exponential overflows."""
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


def held(logits: NDArray[Any]) -> NDArray[np.bool_]:
    """Which of several labels hold, of integers or floats: those above 0."""
    return np.asarray(logits) > 0


def through(function: str, outputs: Numbers) -> Numbers:
    """The numbers of a regression: its outputs through the function that its spec names."""
    return outputs if function == IDENTITY else sigmoid(outputs)


def span(tokens: Tokens, logits: NDArray[Any]) -> tuple[int, int]:
    """The first and the last token [L] of the likeliest answer, by its logits [L, 2].

    That with the largest sum of start and end, both in the text, the end not before the start and
    the answer not longer than ANSWER tokens: as the pipeline of `transformers` chooses it. Of equal
    sums the first.
    """
    places = np.array([place for place, _, _ in tokens.context])
    start, end = logits[places, 0], logits[places, 1]
    ahead = np.arange(len(places)) - np.arange(len(places))[:, None]
    sums = np.where((ahead >= 0) & (ahead < ANSWER), start[:, None] + end, -np.inf)
    first, last = np.unravel_index(int(sums.argmax()), sums.shape)
    return int(places[first]), int(places[last])


def answer(
    spec: EncoderSpec,
    tokens: Tokens,
    logits: Numbers,
    codes: NDArray[np.integer[Any]] | None = None,
) -> dict[str, Any]:
    """The outputs [C] of one text, in the units of the float model, as plain JSON values.

    codes: the integers of which the logits are multiples; where they are given, they decide.
    {"class", "logits", "probabilities"} of a class; {"labels", "logits", "probabilities"} of
    several; {"values"} of a regression; all but the label or labels by the names of the outputs.
    Of outputs [L, C] {"words", "labels", "probabilities", "logits"}, lists with an entry for each
    word of the text: its label, the probability of that, all its logits. Of a question {"answer",
    "begin", "end", "score"}: a part of the text, its characters [begin, end), and the product of
    the probabilities that it begins and that it ends there.
    """
    names = spec.labels
    deciding: NDArray[Any] = logits if codes is None else codes
    if spec.task == TOKEN_CLASSIFICATION:
        return _of_words(spec, tokens, logits, deciding)
    if spec.task == QUESTION_ANSWERING:
        return _of_question(tokens, logits, deciding)
    outputs = dict(zip(names, map(float, logits), strict=True))
    if spec.task == REGRESSION:
        return {"values": dict(zip(names, map(float, through(spec.function, logits)), strict=True))}
    found: dict[str, Any]
    if spec.task == MULTI_LABEL:
        shares = sigmoid(logits)
        found = {"labels": [name for name, holds in zip(names, held(deciding)) if holds]}
    else:
        shares = softmax(logits)
        found = {"class": names[int(deciding.argmax())]}
    return found | {"logits": outputs, "probabilities": dict(zip(names, map(float, shares)))}


def _of_words(
    spec: EncoderSpec, tokens: Tokens, logits: Numbers, deciding: NDArray[Any]
) -> dict[str, Any]:
    logits, classes = logits[tokens.first], deciding[tokens.first].argmax(axis=1)
    shares = softmax(logits)[np.arange(len(classes)), classes]
    return {
        "words": [tokens.spelling[word] for word in tokens.kept],
        "labels": [spec.labels[one] for one in classes],
        "probabilities": shares.astype(float).tolist(),
        "logits": logits.astype(float).tolist(),
    }


def _of_question(tokens: Tokens, logits: Numbers, deciding: NDArray[Any]) -> dict[str, Any]:
    first, last = span(tokens, deciding)
    characters = {place: (begin, end) for place, begin, end in tokens.context}
    places = list(characters)
    start, end = (softmax(logits[places, i]) for i in (0, 1))
    begin, past = characters[first][0], characters[last][1]
    score = start[places.index(first)] * end[places.index(last)]
    return {"answer": tokens.pair[begin:past], "begin": begin, "end": past, "score": float(score)}


def texts_of(
    spec: EncoderSpec, rows: NDArray[Any], texts: Sequence[Tokens]
) -> Sequence[NDArray[Any]]:
    """Golden's outputs [n, C] of texts one after the other by the text: [C], or [L, C]."""
    if not spec.every_token:
        return list(rows)
    return np.split(rows, np.cumsum([len(tokens.ids) for tokens in texts])[:-1])


def numbers(spec: EncoderSpec, tokens: Tokens, outputs: NDArray[Any]) -> Any:
    """Logits or integers as JSON values: by the names of the outputs; of words a list each."""
    if spec.task == TOKEN_CLASSIFICATION:
        return outputs[tokens.first].tolist()
    if spec.task == QUESTION_ANSWERING:
        ends = zip(spec.labels, span(tokens, outputs))
        return {name: int(outputs[place, i]) for i, (name, place) in enumerate(ends)}
    return dict(zip(spec.labels, outputs.tolist(), strict=True))


def said(values: dict[str, Any]) -> str:
    """An answer in a few words; of words they themselves, a label behind those that are not O."""
    if "words" in values:
        pairs = zip(values["words"], values["labels"], strict=True)
        return " ".join(word if tag == OUTSIDE else f"{word}/{tag}" for word, tag in pairs)
    if "answer" in values:
        return str(values["answer"])
    if "class" in values:
        return str(values["class"])
    if "labels" in values:
        return ", ".join(values["labels"]) or "no label"
    return ", ".join(f"{name} {value:.4f}" for name, value in values["values"].items())


def table(
    spec: EncoderSpec, values: dict[str, Any], floats: dict[str, Any] | None = None
) -> list[str]:
    """Lines of an answer with its "integer_logits"; the float model's beside it.

    An output each; of words a word each, without the integers.
    """
    if spec.task == TOKEN_CLASSIFICATION:
        return _words_table(values, floats)
    if spec.task == QUESTION_ANSWERING:
        beside = f", float {floats['score']:.2%}" if floats else ""
        place = f"characters {values['begin']} to {values['end']}"
        return [f"{place} of the text, probability {values['score']:.2%}{beside}"]
    kind = _KIND[spec.task]
    width = max(len(kind), 5, *map(len, spec.labels))
    titles = ["value"] if spec.task == REGRESSION else ["logit", "probability"]
    cells = [[name, str(values["integer_logits"][name])] for name in spec.labels]
    for column, one in enumerate((values, floats)):
        for line in cells if one else ():
            line += _figures(spec, one or {}, line[0])
        titles += [f"float {titles[0]}", *titles[1:]] if floats and not column else []
    lines = [[kind, "integer logit", *titles], *cells]
    widths = (9, 12, 12, 12)
    return [
        f"{name:{width}}{logit:>14}" + "".join(f" {cell:>{w}}" for cell, w in zip(rest, widths))
        for name, logit, *rest in lines
    ]


def _words_table(values: dict[str, Any], floats: dict[str, Any] | None) -> list[str]:
    shown = [one for one in (values, floats) if one]
    lines = [["word", "label", "probability"], *([word] for word in values["words"])]
    if floats:
        lines[0] += ["float label", "probability"]
    for one in shown:
        for line, tag, share in zip(lines[1:], one["labels"], one["probabilities"], strict=True):
            line += [tag, f"{share:.2%}"]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return [
        "  ".join(
            cell.rjust(width) if number % 2 == 0 and number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    ]


def _figures(spec: EncoderSpec, values: dict[str, Any], name: str) -> list[str]:
    """Of one output: logit and probability, or the number."""
    if spec.task == REGRESSION:
        return [f"{values['values'][name]:.4f}"]
    return [f"{values['logits'][name]:.4f}", f"{values['probabilities'][name]:.2%}"]


def right_of(spec: EncoderSpec, review: Review, tokens: Tokens) -> Any:
    """What the file says of a text, as `answer` says it: a class, labels, or numbers by name.

    Of words a list of labels, None where it says nothing of a word; None where of none.
    """
    if spec.task == TOKEN_CLASSIFICATION:
        if review.words is None or not any(tag is not None for tag in review.tags):
            return None
        tags = [review.tags[word] for word in tokens.kept]
        return [None if tag is None else spec.labels[tag] for tag in tags]
    if spec.task == QUESTION_ANSWERING:
        return None
    if spec.task == CLASSIFICATION:
        return None if review.label is None else spec.labels[review.label]
    if review.targets is None:
        return None
    named = zip(spec.labels, review.targets)
    if spec.task == REGRESSION:
        return dict(named)
    return [name for name, holds in named if holds]

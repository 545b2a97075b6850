"""The parts of the report that say in words and tables how good a model is, the worst first."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from cli.page import charts

import numpy as np

from quant.foreign.tokenizer import Tokens
from quant.measure.compare import TensorError
from quant.measure.metrics import percent, points
from quant.measure.tasks import Evaluation
from quant.measure.verdict import ADVICE, AGREEMENT, SQNR_DB, judge

SHOWN_TENSORS = 12  # before the fold
SHOWN_TEXTS = 20
SHOWN_CHARACTERS = 400
ENOUGH = 30  # labels that tell a model from a guess


def html_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table that scrolls by itself where it is wider than the page."""

    def row(cells: Sequence[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(c))}</{tag}>" for c in cells) + "</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    return f'<div class="wide"><table>{row(head, "th")}{body}</table></div>'


def bars(rows: Sequence[tuple[str, float, str]]) -> str:
    """A row each: name, a bar as long as its value of the largest, and its label."""
    largest = max([value for _, value, _ in rows] + [1e-12])
    parts = []
    for name, value, label in rows:
        bar = f'<i style="width:{100 * max(0.0, value) / largest:.1f}%"></i>'
        parts.append(f"<span>{escape(name)}</span><span>{bar}</span><span>{escape(label)}</span>")
    return f'<div class="bars">{"".join(parts)}</div>'


def verdict(result: Evaluation) -> str:
    """One sentence, what is below its bound, and what to try."""
    texts = len(result.float_logits)
    found = judge(result.errors, result.agreement, texts, inputs=result.inputs)
    floats, integers = (
        result.scores(classes) for classes in (result.float_classes, result.integer_classes)
    )
    accuracy, guess = (
        f" The {result.inputs} have no labels, so nothing is known of its accuracy.",
        "",
    )
    if floats and integers:
        guess = _guess(result, floats["accuracy"])
        change = points(floats["accuracy"], integers["accuracy"])
        accuracy = (
            f" Accuracy {percent(floats['accuracy'])} float, "
            f"{percent(integers['accuracy'])} integer ({change} points)."
        )
    said = (
        f"The integer model gives {percent(result.agreement)} of {texts:,} {result.inputs} the "
        f"class that the float model gives.{accuracy}"
    )
    if found.good:
        noise = ""
        if result.errors:
            worst = worst_first(result.errors)[0]
            noise = (
                f" The tensor with most quantization noise, {escape(worst)}, has "
                f"{result.errors[worst].sqnr:.1f} dB of signal to it, where {SQNR_DB:.0f} are "
                "enough."
            )
        kind, head = "good", "Good quantization."
        if guess:
            kind, head = "poor", "Good quantization of a model that guesses."
        return f'<div class="verdict {kind}"><b>{head}</b>{guess} {said}{noise}</div>'
    listed = "".join(f"<li>{escape(line)}</li>" for line in found.findings)
    return (
        f'<div class="verdict poor"><b>Poor quantization.</b>{guess} {said}<ul>{listed}</ul>Try '
        f"{escape(ADVICE)}. The bounds are {SQNR_DB:.0f} dB for a tensor and {AGREEMENT:.0%} of "
        "the texts.</div>"
    )


def _guess(result: Evaluation, accuracy: float) -> str:
    """A sentence where the float model is no better than always naming the most frequent class.

    Better is a model by more than two standard deviations of that guess's share of right texts.
    Fewer than ENOUGH labels, or labels of one class alone, tell neither.
    """
    labels = result.labels[result.labelled]
    counts = np.bincount(labels, minlength=len(result.names))
    share = float(counts.max() / len(labels))
    if len(labels) < ENOUGH or share == 1:
        return ""
    if accuracy > share + 2 * np.sqrt(share * (1 - share) / len(labels)):
        return ""
    return (
        f" The float model itself is right on {percent(accuracy)} of {len(labels):,} labelled "
        f"{result.inputs}, no better than always answering "
        f"{escape(result.names[int(counts.argmax())])}, which is right on {percent(share)}. Its "
        "integers cannot be better: train it, or check that the labels are those of the model."
    )


def summary(result: Evaluation, info: dict[str, Any]) -> str:
    """Accuracy by class, the difference of the logits, and where the model comes from."""
    values = result.to_json()
    rows: list[list[object]] = []
    floats, integers = values["float"], values["golden"]
    if floats and integers:
        pairs = [("accuracy", floats["accuracy"], integers["accuracy"])]
        for i, name in enumerate(result.names):
            pairs += [
                (f"{key} {name}", floats[key][i], integers[key][i])
                for key in ("precision", "recall", "f1")
            ]
        rows = [[n, percent(a), percent(b), points(a, b)] for n, a, b in pairs]
    difference, flips = values["logit_difference"], values["flips"]
    facts = [
        f"{values['texts']:,} {result.inputs}, {values['labelled_texts']:,} of them with a label, "
        f"{values['tokens']:,} tokens; the two models differ on {flips['changed']:,}",
        f"logits differ by {difference['mean']:.5f} in the mean and {difference['largest']:.4f} at "
        f"most (standard deviation of the logits {difference['float_spread']:.3f}; one integer "
        f"step is {difference['lsb']:.3g})",
    ]
    if "mcnemar_p" in flips:
        facts.append(
            f"only float right {flips['only_float_right']}, only integer right "
            f"{flips['only_golden_right']}, McNemar's exact p = {flips['mcnemar_p']:.3f}"
        )
    calibration = info["calibration"]
    facts.append(
        f"calibrated on {calibration['texts']} {result.inputs} of "
        f"{escape(str(calibration['data']))} by {calibration['method']}; checkpoint SHA-256 "
        f"<code>{info['checkpoint']['sha256'][:16]}…</code>; {escape(info['tool'])}"
    )
    table = html_table(("", "float", "integer", "points"), rows) if rows else ""
    return table + "<ul>" + "".join(f"<li>{fact}</li>" for fact in facts) + "</ul>"


def confusions(result: Evaluation) -> str:
    """The confusion matrices of both models side by side."""
    figures = []
    for name, classes in (("float", result.float_classes), ("integer", result.integer_classes)):
        scores = result.scores(classes)
        if scores is None:
            return f"<p>The {result.inputs} have no labels.</p>"
        chart = charts.confusion(np.array(scores["confusion"]), result.names, name)
        figures.append(f"<figure><figcaption>{name} model</figcaption>{chart}</figure>")
    return f'<div class="pair">{"".join(figures)}</div>'


def worst_first(errors: Mapping[str, TensorError]) -> list[str]:
    """The names of the tensors by their signal to noise ratio."""
    return sorted(errors, key=lambda name: errors[name].sqnr)


def tensors(result: Evaluation) -> str:
    """Every tensor, worst first, with its outlier channels; all but the worst folded away."""

    def rows(names: Sequence[str]) -> list[list[str]]:
        found = []
        for name in names:
            error = result.errors[name]
            channels = ", ".join(f"{c} ({times:.0f}x)" for c, times in error.outliers()[:4])
            found.append(
                [
                    name,
                    f"{error.sqnr:.1f}",
                    f"{error.largest / error.lsb:.1f}",
                    f"{error.limits / max(error.count, 1):.3%}",
                    channels or "-",
                ]
            )
        return found

    head = ("tensor", "SQNR dB", "largest error, LSB", "codes at limits", "outlier channels")
    names = worst_first(result.errors)
    shown = html_table(head, rows(names[:SHOWN_TENSORS]))
    rest = names[SHOWN_TENSORS:]
    if rest:
        folded = html_table(head, rows(rest))
        shown += f"<details><summary>{len(rest)} better tensors</summary>{folded}</details>"
    return (
        f"<p>Over {result.traced} {result.inputs}. A code at its limit is a value that saturated "
        "or lies just there. An outlier channel reaches 8 times as far as the tensor's median "
        f"channel or further.</p>{shown}"
    )


def wrong_texts(result: Evaluation, texts: Sequence[Tokens]) -> str:
    """Texts whose class the quantization changed, then those that both models get wrong, folded."""
    classes = result.integer_classes
    flipped = classes != result.float_classes
    wrong = result.labelled & (classes != result.labels)
    found = np.flatnonzero(flipped | wrong).tolist()
    order = sorted(found, key=lambda i: (not flipped[i], _margin(result, i)))
    if not order:
        return "<p>None.</p>"
    items: dict[bool, list[str]] = {True: [], False: []}
    for i in order[:SHOWN_TEXTS]:
        label = result.names[result.labels[i]] if result.labels[i] >= 0 else "no label"
        kind = "changed by quantization" if flipped[i] else "wrong in both models"
        items[bool(flipped[i])].append(
            f"<li><b>{kind}</b>: label {escape(label)}, float "
            f"{escape(result.names[result.float_classes[i]])}, integer "
            f"{escape(result.names[classes[i]])}, margin {_margin(result, i):.3f}"
            f"<blockquote>{escape(shown(texts[i]))}</blockquote></li>"
        )
    more = (
        f"<p>{len(order) - SHOWN_TEXTS:,} more are not shown.</p>"
        if len(order) > SHOWN_TEXTS
        else ""
    )
    changed, both = int(flipped.sum()), int((wrong & ~flipped).sum())
    parts = [
        f"<p>Quantization changed the class of {changed:,}; {both:,} others are wrong in both "
        "models. As the model reads them, closest call first: the margin is between its two "
        "largest logits.</p>"
    ]
    if items[True]:
        parts.append(f"<ol>{''.join(items[True])}</ol>")
    if items[False]:
        parts.append(
            f"<details><summary>Texts that are wrong in both models: {len(items[False])} of "
            f"{both:,}</summary><ol>{''.join(items[False])}</ol></details>"
        )
    return "".join([*parts, more])


def _margin(result: Evaluation, i: int) -> float:
    second, first = np.sort(result.integer_logits[i])[-2:]
    return float((first - second) * result.logit_scale)


def shown(tokens: Tokens) -> str:
    """The words that the tokens stand for, shortened."""
    text = " ".join(tokens.words[1:-1]).replace(" ##", "").replace("Ġ", "")
    return text[:SHOWN_CHARACTERS] + (" ..." if len(text) > SHOWN_CHARACTERS else "")

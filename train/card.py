"""The model card of a checkpoint: what it is, what it measured, and how to make it again.

A card says what the command knows. Licence, language and task of someone's data are not among that.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

_CLASSIFIER = """---
{front}
---

# {name}

{summary}

## Metrics

Measured by the command below on the half-precision weights that are in this directory, computed in
float32{read}. Validation chose the step whose weights were kept.

| split | {what} | {extent} | accuracy | macro F1 | loss (nats) |
| --- | --- | --- | --- | --- | --- |
{metrics}

## Data

{data}

## How it was made

    {command}

with all arguments, defaults included:

{arguments}

Averaged training loss and validation figures at each evaluation; the weights of step {best} were
kept.

{history}
"""

_ENCODER = """# {name}

{summary}

## How it was made

    {command}

with all arguments, defaults included:

{arguments}

Accuracy (%) and loss (nats) of the masked words; the weights of step {best} were kept.

{history}
"""


def classifier_card(
    *,
    name: str,
    front: Mapping[str, str],
    summary: str,
    data: str,
    module: str,
    metrics: Mapping[str, Mapping[str, Any]],
    arguments: Mapping[str, Any],
    command: Sequence[str],
    history: Sequence[Mapping[str, Any]],
    best_step: int,
    what: str = "texts",
) -> str:
    """The card of a classifier as Markdown.

    ``front``: what is known of language, task and library, by the names of the Hugging Face hub;
    ``metrics``: split -> texts, length, accuracy, f1, loss; of ``what`` "images" images and size.
    """
    texts = what == "texts"
    size, unit = ("length", " tokens") if texts else ("size", "")
    rows = [
        f"| {split} | {m[what]:,} | {m[size]}{unit} "
        f"| {m['accuracy']:.2f} % | {m['f1']:.2f} % | {m['loss']:.4f} |"
        for split, m in metrics.items()
    ]
    return _CLASSIFIER.format(
        front="\n".join(f"{key}: {value}" for key, value in front.items()),
        name=name,
        summary=summary,
        data=data,
        metrics="\n".join(rows),
        what=what,
        extent="longest" if texts else "size",
        read=", on the beginning of each text" if texts else "",
        **_making(module, command, arguments, history, best_step),
    )


def encoder_card(
    *,
    name: str,
    summary: str,
    module: str,
    arguments: Mapping[str, Any],
    command: Sequence[str],
    history: Sequence[Mapping[str, Any]],
    best_step: int,
) -> str:
    """The card of a pre-trained encoder as Markdown."""
    making = _making(module, command, arguments, history, best_step)
    return _ENCODER.format(name=name, summary=summary, **making)


def _making(
    module: str,
    command: Sequence[str],
    arguments: Mapping[str, Any],
    history: Sequence[Mapping[str, Any]],
    best_step: int,
) -> dict[str, Any]:
    return {
        "command": shlex.join(["python", "-m", module, *command]),
        "arguments": table([{"argument": key, "value": str(v)} for key, v in arguments.items()]),
        "best": best_step,
        "history": table(history),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same keys as a Markdown table; fractions with four significant digits."""
    if not rows:
        return ""
    keys = list(rows[-1])
    lines = ["| " + " | ".join(keys) + " |", "| " + " | ".join("---" for _ in keys) + " |"]
    for row in rows:
        cells = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in map(row.get, keys)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)

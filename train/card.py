"""The model card of a checkpoint: what it is, what it measured, and how to make it again."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

_HEAD = """---
language: en
license: apache-2.0
library_name: transformers
pipeline_tag: text-classification
tags: [text-classification, sentiment-analysis, bert2rtl]
---

# {name}

{summary}

## Metrics

Measured by the command below on the half-precision weights that are in this directory, computed in
float32, on the beginning of each text.

| split | texts | longest | accuracy | macro F1 | loss (nats) |
| --- | --- | --- | --- | --- | --- |
{metrics}

## Data

{data}

## How it was made

    {command}

with all arguments, defaults included:

| argument | value |
| --- | --- |
{arguments}

Averaged training loss and validation figures at each evaluation; the weights of step {best} were
kept.

{history}
"""


def model_card(
    *,
    name: str,
    summary: str,
    data: str,
    module: str,
    metrics: Mapping[str, Mapping[str, Any]],
    arguments: Mapping[str, Any],
    command: Sequence[str],
    history: Sequence[Mapping[str, Any]],
    best_step: int,
) -> str:
    """The card as Markdown. ``metrics``: split -> texts, length, accuracy, f1, loss."""
    rows = [
        f"| {split} | {m['texts']:,} | {m['length']} tokens | {m['accuracy']:.2f} % "
        f"| {m['f1']:.2f} % | {m['loss']:.4f} |"
        for split, m in metrics.items()
    ]
    return _HEAD.format(
        name=name,
        summary=summary,
        data=data,
        metrics="\n".join(rows),
        command=shlex.join(["python", "-m", module, *command]),
        arguments="\n".join(f"| {key} | {value} |" for key, value in arguments.items()),
        best=best_step,
        history=table(history),
    )


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

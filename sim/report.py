"""Tables for the terminal and the same figures as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Aligned columns, numbers to the right, one space-padded line a row; None shows as a dash."""
    cells = [[_text(value) for value in row] for row in rows]
    numeric = [
        all(isinstance(row[column], (int, float, type(None))) for row in rows)
        for column in range(len(headings))
    ]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]

    def line(texts: Sequence[str]) -> str:
        padded = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(texts, widths, numeric, strict=True)
        ]
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(headings), rule, *map(line, cells)])


def write_json(path: Path, figures: object) -> None:
    """Write `figures` to `path`, whole or not at all; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(json.dumps(figures, indent=2) + "\n")
    partial.replace(path)

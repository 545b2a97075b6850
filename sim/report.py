"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


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

"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[object]], right: int = 0) -> str:
    """A table; its last `right` columns are numbers."""
    ruler = [" --- "] * (len(header) - right) + [" ---: "] * right
    lines = [[f" {cell} " for cell in header], ruler]
    lines += [[f" {cell} " if str(cell) else " " for cell in row] for row in rows]
    return "".join(f"|{'|'.join(line)}|\n" for line in lines)

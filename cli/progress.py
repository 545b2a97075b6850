"""How far a command is: a bar on a terminal, one line a stage where there is none.

Both go to stderr, so that what a command prints can be read by a program.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sized
from typing import TypeVar

T = TypeVar("T")


def progress(
    items: Iterable[T], description: str, unit: str = "texts", total: int | None = None
) -> Iterable[T]:
    """The items, with a progress bar on a terminal; without one a line that says what begins.

    total
        How many items there are, where they do not say so themselves.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    if not sys.stderr.isatty():
        stage(description if total is None else f"{description}: {total:,} {unit}")
        return items
    from tqdm import tqdm

    return tqdm(items, desc=description, total=total, unit=f" {unit}", leave=False)


def stage(description: str) -> None:
    """Say on stderr at once what takes long from here: the log of a killed run then shows it."""
    print(description, file=sys.stderr, flush=True)

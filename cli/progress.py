"""How far a command is: a bar on a terminal, one line a stage where there is none.

Both go to stderr, so that what a command prints can be read by a program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sized
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Advance: TypeAlias = Callable[[int], None]
"""Hears how many of a bar's units were done."""


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


class Bar:
    """One bar for a command of several stages, in units of about the same time each.

    description
        Said at once where there is no terminal.
    total
        Units that are expected; `left` corrects it as more is known.
    shown
        Without, nothing is printed.
    """

    def __init__(
        self, description: str, total: int, unit: str = "tokens", shown: bool = True
    ) -> None:
        self._shown = shown
        self._bar: Any = None
        if shown and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(desc=description, total=total, unit=f" {unit}", leave=False)
        elif shown:
            stage(description)

    def advance(self, units: int) -> None:
        if self._bar is not None:
            self._bar.update(units)

    def left(self, units: int) -> None:
        """So much is left from here."""
        if self._bar is not None:
            self._bar.total = self._bar.n + units
            self._bar.refresh()

    def say(self, line: str) -> None:
        """A line that stays, above the bar."""
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        elif self._shown:
            stage(line)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

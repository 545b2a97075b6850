"""How far a command is: a bar on a terminal, lines with the time that is left where there is none.

Both go to stderr, so that what a command prints can be read by a program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from time import monotonic
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Advance: TypeAlias = Callable[[int], None]
"""Hears how many of a bar's units were done."""

FIRST, EACH = 5, 30
"""Seconds to the first line of time left, which short work does not get, and between two."""


def progress(
    items: Iterable[T],
    description: str,
    unit: str = "texts",
    total: int | None = None,
    shorter: str = "",
) -> Iterable[T]:
    """The items, with a progress bar on a terminal; without one lines that say how far it is.

    total
        How many items there are, where they do not say so themselves.
    shorter
        The options that make the work shorter.
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    if not sys.stderr.isatty():
        stage(description if total is None else f"{description}: {total:,} {unit}")
        return _told(items, _Lines(description, total, unit, shorter))
    from tqdm import tqdm

    return tqdm(items, desc=description, total=total, unit=f" {unit}", leave=False)


def stage(description: str) -> None:
    """Say on stderr at once what takes long from here: the log of a killed run then shows it."""
    print(description, file=sys.stderr, flush=True)


def _told(items: Iterable[T], lines: _Lines) -> Iterator[T]:
    for item in items:
        yield item
        lines.advance(1)


class _Lines:
    """The lines of work whose end is not watched: an estimate after FIRST, then one every EACH."""

    def __init__(self, description: str, total: int | None, unit: str, shorter: str) -> None:
        self._description, self.total, self._unit = description, total, unit
        self._shorter = f"; {shorter} shorten it" if shorter else ""
        self.done = 0
        self._start = monotonic()
        self._next = self._start + FIRST

    def advance(self, units: int) -> None:
        self.done += units
        now = monotonic()
        if now < self._next:
            return
        first = self._next == self._start + FIRST
        spent = now - self._start
        if self.total is None:
            self._next = now + EACH
            if not first:
                stage(f"{self._description}: {self.done:,} {self._unit} in {duration(spent)}")
            return
        left = spent * max(0, self.total - self.done) / max(1, self.done)
        self._next = now + EACH
        if first and left < EACH:
            return
        share = min(self.done / max(1, self.total), 1)
        stage(f"{self._description}: {share:.0%}, about {duration(left)} left{self._shorter}")
        self._shorter = ""


def duration(seconds: float) -> str:
    """45 s, 8 min or 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Bar:
    """One bar for a command of several stages, in units of about the same time each.

    description
        Said at once where there is no terminal.
    total
        Units that are expected; `left` corrects it as more is known.
    shown
        Without, nothing is printed.
    shorter
        The options that make the work shorter.
    """

    def __init__(
        self,
        description: str,
        total: int,
        unit: str = "tokens",
        shown: bool = True,
        shorter: str = "",
    ) -> None:
        self._bar: Any = None
        self._lines: _Lines | None = None
        if shown and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(desc=description, total=total, unit=f" {unit}", leave=False)
        elif shown:
            stage(description)
            self._lines = _Lines(description, total, unit, shorter)

    def advance(self, units: int) -> None:
        if self._bar is not None:
            self._bar.update(units)
        elif self._lines is not None:
            self._lines.advance(units)

    def left(self, units: int) -> None:
        """So much is left from here."""
        if self._bar is not None:
            self._bar.total = self._bar.n + units
            self._bar.refresh()
        elif self._lines is not None:
            self._lines.total = self._lines.done + units

    def say(self, line: str) -> None:
        """A line that stays, above the bar."""
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        elif self._lines is not None:
            stage(line)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

"""How far a command is, on stderr: a bar on a terminal, where there is none one line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Advance: TypeAlias = Callable[[int], None]
"""Hears how many of a bar's units were done."""


def stage(description: str) -> None:
    """Say on stderr at once what takes long from here: the log of a killed run then shows it."""
    print(description, file=sys.stderr, flush=True)


def progress(
    items: Iterable[T], description: str, unit: str = "texts", total: int | None = None
) -> Iterator[T]:
    """The items, with a bar; `total` says how many there are where they do not themselves."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    if not sys.stderr.isatty() and total is not None:
        description = f"{description}: {total:,} {unit}"
    with Bar(description, total, unit) as bar:
        for item in items:
            yield item
            bar.advance(1)


def duration(seconds: float) -> str:
    """45 s, 8 min or 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Bar:
    """One bar for a command of several stages, in units of about the same time each.

    `left` corrects `total` as more is known; without `shown` nothing is printed.
    """

    def __init__(
        self, description: str, total: int | None, unit: str = "tokens", shown: bool = True
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

"""How far a command is, on stderr: a bar on a terminal, where there is none one line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Any, TypeVar

from tqdm import tqdm

T = TypeVar("T")
if TYPE_CHECKING:  # generic in its type hints alone
    _Tqdm = tqdm[Any]
else:
    _Tqdm = tqdm


def stage(description: str) -> None:
    """Say on stderr at once what takes long from here: the log of a killed run then shows it."""
    print(description, file=sys.stderr, flush=True)


class Bar(_Tqdm):
    """A bar for a command of several stages, in units of about the same time each."""

    def __init__(
        self, description: str, total: int | None, unit: str = "tokens", shown: bool = True
    ) -> None:
        self.shown = shown
        hidden = not (shown and sys.stderr.isatty())
        if shown and hidden:
            stage(description)
        super().__init__(
            desc=description, total=total, unit=f" {unit}", leave=False, disable=hidden
        )

    def say(self, line: str) -> None:
        """A line that stays, above the bar."""
        if self.shown:
            self.write(line, file=sys.stderr)


def progress(
    items: Iterable[T], description: str, unit: str = "texts", total: int | None = None
) -> Iterator[T]:
    """The items, with a bar; `total` says how many there are where they do not themselves."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with Bar(description, total, unit) as bar:
        for item in items:
            yield item
            bar.update(1)


def duration(seconds: float) -> str:
    """45 s or 8 min."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"

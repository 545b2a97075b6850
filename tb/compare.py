"""Comparison of what the hardware did with golden, bit for bit, and the report of a difference."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first value that differs.

    Attributes
    ----------
    tensor
        Name of the intermediate, as in the golden trace.
    position
        Where in it: tile, lane, index or whatever its axes are called.
    cycle
        Cycle in which the hardware gave it, when known.
    expected, actual
        Both values.
    """

    tensor: str
    position: dict[str, int]
    cycle: int | None
    expected: int
    actual: int

    def __str__(self) -> str:
        place = ", ".join(f"{axis} {index}" for axis, index in self.position.items())
        when = "" if self.cycle is None else f" in cycle {self.cycle}"
        return f"{self.tensor}[{place}]{when} is {self.actual}, golden says {self.expected}"


class Mismatch(AssertionError):
    """Hardware and golden differ, or nothing was compared."""


class Tally:
    """Counts compared values and mismatches over many tensors and keeps the first difference.

    Attributes
    ----------
    values, mismatches
        How many values were compared, and how many of them differ.
    first
        The first difference in the order of the calls; within one call, the earliest cycle.
    """

    def __init__(self) -> None:
        self.values = 0
        self.mismatches = 0
        self.first: Difference | None = None

    def compare(
        self,
        tensor: str,
        expected: np.ndarray,
        actual: np.ndarray,
        axes: Sequence[str],
        cycles: np.ndarray | None = None,
    ) -> int:
        """Compare two integer arrays of one shape; returns how many values differ.

        Parameters
        ----------
        axes
            Names of the axes: ("tile", "index", "lane").
        cycles
            Cycle of each value, in a shape that broadcasts to theirs.

        Raises
        ------
        Mismatch
            The shapes differ: words are missing, or there are too many.
        """
        expected, actual = np.asarray(expected), np.asarray(actual)
        if expected.shape != actual.shape:
            raise Mismatch(
                f"{tensor}: hardware gave the shape {list(actual.shape)}, golden "
                f"{list(expected.shape)} (axes {', '.join(axes)})"
            )
        self.values += expected.size
        wrong = np.flatnonzero(expected != actual)
        self.mismatches += len(wrong)
        if len(wrong) and self.first is None:
            when = None if cycles is None else np.broadcast_to(cycles, expected.shape).ravel()
            first = wrong[0] if when is None else wrong[np.argmin(when[wrong])]
            position = np.unravel_index(first, expected.shape)
            self.first = Difference(
                tensor=tensor,
                position=dict(zip(axes, map(int, position))),
                cycle=None if when is None else int(when[first]),
                expected=int(expected.flat[first]),
                actual=int(actual.flat[first]),
            )
        return len(wrong)

    def check(self) -> None:
        """Raise Mismatch, with the first difference, unless all values were equal."""
        if self.mismatches:
            raise Mismatch(f"{self.mismatches} of {self.values} values differ; first {self.first}")
        if not self.values:
            raise Mismatch("nothing was compared")

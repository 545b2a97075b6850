"""The fuzzer's cases on a program that counts what is covered."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cli.workers import each

from rtl.interface.config import Config
from rtl.interface.operation import Error
from verify.coverage.code import KINDS, Point, merged, read
from verify.coverage.functional import Bin, covered, everything, why_not
from verify.fuzz import play
from verify.fuzz.judge import judge

FLAGS = ("--coverage-line", "--coverage-toggle")
CHUNK = 200


@dataclass
class Covered:
    """What was covered.

    Attributes
    ----------
    points, bins
        Code points with their counts, and functional bins with their inferences.
    wrong
        Cases that the fuzzer judged to be wrong, by number, and why.
    """

    lanes: int
    cases: int = 0
    points: Counter[Point] = field(default_factory=Counter)
    bins: Counter[Bin] = field(default_factory=Counter)
    wrong: dict[int, str] = field(default_factory=dict)

    def add(self, other: Covered) -> None:
        """The sum of both, as one run would have had it."""
        self.cases += other.cases
        self.points = merged([self.points, other.points])
        self.bins.update(other.bins)
        self.wrong |= other.wrong

    def shares(self) -> dict[str, tuple[int, int]]:
        """Covered and all, of each kind of point and of the functional bins."""
        found = {
            kind: (
                sum(bool(count) for point, count in self.points.items() if point.kind == kind),
                sum(point.kind == kind for point in self.points),
            )
            for kind in KINDS
        }
        every = everything(self.lanes)
        return found | {"functional": (len(set(every) & self.bins.keys()), len(every))}

    def percent(self) -> dict[str, float]:
        """The share of each kind that is covered, in percent; 0 where there is nothing."""
        return {
            kind: 100 * done / total if total else 0.0
            for kind, (done, total) in self.shares().items()
        }

    def impossible(self) -> list[str]:
        """Bins that were covered although they are excluded: the reason is wrong."""
        return [f"{one} ({why_not(one)})" for one in sorted(self.bins) if why_not(one)]


def share(seed: int, case: tuple[Path | None, Config, Sequence[int]]) -> Covered:
    """What these cases cover; case: the program (None: build it), limits, numbers."""
    path, limits, numbers = case
    found = Covered(limits.lanes, len(numbers))
    with tempfile.TemporaryDirectory(prefix="bert2rtl-") as folder:
        data = Path(folder) / "coverage.dat"
        for one, subjects, facts in play.observed(
            path or program(limits), limits, seed, numbers, data
        ):
            wrong = judge(one, subjects, facts)
            if wrong:
                found.wrong[one.number] = wrong[0]
            for run, seen in zip(one.runs, facts.runs):
                if wrong or seen.model_rest or seen.tokens_rest:
                    break  # words of the run before: later ones stand at another place
                found.bins.update(set(covered(run, seen, limits)))
        found.points = read(data.read_text(), "what the simulation wrote")
    return found


def program(limits: Config) -> Path:
    """The fuzzer, built so that it counts."""
    return play.program(limits, variant="-coverage", flags=FLAGS)


def collect(
    limits: Config, seed: int, numbers: Sequence[int], jobs: int = 1, dask: str | None = None
) -> Iterable[Covered]:
    """What the cases cover, a share of them at a time; jobs and dask as for `cli.workers.each`."""
    path = None if dask else program(limits)
    shares = {
        f"cases from {numbers[at]}": (path, limits, numbers[at : at + CHUNK])
        for at in range(0, len(numbers), CHUNK)
    }
    return (found for _, found in each(share, seed, shares, jobs=jobs, dask=dask))


def codes(found: Covered) -> dict[str, int]:
    """Covered bins by error code."""
    counted = Counter(one.code for one in found.bins)
    return {code.name: counted[code] for code in Error}

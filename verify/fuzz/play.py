"""Many cases in a few processes: build, play, judge."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.workers import each

from rtl.interface.config import Config, array
from sim.design import Design, generated
from sim.machine import play as machine
from sim.machine.job import Settings, job_file
from sim.machine.result import Played
from verify.fuzz.cases import built
from verify.fuzz.job import Case
from verify.fuzz.judge import judge
from verify.fuzz.subject import Subject, subjects

PATIENCE = 2_500
"""Cycles without progress that count as a hang; no row or pause of a case is that long."""

LONGEST = 200_000
"""Cycles that no run of a case takes."""

CHUNK = 200

COVERAGE: dict[str, Any] = {
    "variant": "-coverage",
    "flags": ("--coverage-line", "--coverage-toggle"),
}
"""What `program` takes for one that counts what is covered."""


@dataclass(frozen=True)
class Judged:
    """What came of one case; `wrong` is empty when it was right."""

    limits: Config
    number: int
    kind: str
    wrong: list[str]
    codes: tuple[int, ...]


def program(
    limits: Config, design: Design | None = None, variant: str = "", flags: Sequence[str] = ()
) -> Path:
    """The machine of these limits, or of another design with the same ports.

    flags
        Further ones of Verilator.
    """
    return machine.program(design or generated("accelerator", limits), variant, flags)


def observed(
    program: Path,
    limits: Config,
    seed: int,
    numbers: Sequence[int],
    coverage: Path | None = None,
    mutant: int = 0,
) -> Iterator[tuple[Case, tuple[Subject, ...], Played]]:
    """`shown` of the cases of these numbers."""
    return shown(program, limits, [built(seed, limits, n) for n in numbers], coverage, mutant)


def shown(
    program: Path,
    limits: Config,
    found: Sequence[tuple[Case, tuple[Subject, ...]]],
    coverage: Path | None = None,
    mutant: int = 0,
) -> Iterator[tuple[Case, tuple[Subject, ...], Played]]:
    """Play these cases: each, the subjects of its runs, and what it showed.

    coverage
        Where a program that was built with coverage writes what was covered.
    mutant
        Which one of a design that holds several; 0: the sound one.

    Raises
    ------
    SimulatorError
        The simulation died.
    """
    settings = Settings(
        lanes=limits.lanes,
        mutant=mutant,
        odd=True,
        reset=2,
        quiet=8,
        patience=PATIENCE,
        longest=LONGEST,
    )
    tables = [subject.table for subject in subjects(limits)]
    cases = {case.number: case.runs for case, _ in found}
    share = machine.Share(job_file(settings, limits, tables, cases), list(cases))
    with closing(machine.play(program, limits, [share], coverage)) as played:
        for (case, of), facts in zip(found, played):
            yield case, of, facts
        # Anything more is that the process died.
        next(played, None)


def chunk(
    program: Path, limits: Config, seed: int, numbers: Sequence[int], coverage: Path | None = None
) -> list[Judged]:
    """Play and judge these cases; errors as for `observed`."""
    outcomes = []
    for case, played, facts in observed(program, limits, seed, numbers, coverage):
        codes = tuple(run.code for run in facts.runs if run.status >= 0)
        wrong = judge(case, played, facts)
        outcomes.append(Judged(limits, case.number, case.kind, wrong, codes))
    return outcomes


def play(
    programs: Mapping[Config, Path | None],
    seed: int,
    numbers: Mapping[Config, range],
    jobs: int = 1,
    dask: str | None = None,
    covered: Counter[str] | None = None,
) -> Iterator[Judged]:
    """The outcomes of the cases of these numbers for each of these limits, in order.

    programs
        Built fuzzer of each; None: whoever plays a case builds it first.
    jobs, dask
        As for `cli.workers.each`.
    covered
        Where the programs count what is covered: the sum, by what Verilator calls each point.
    """
    shares = {
        f"{array(limits.lanes, limits.tile_columns)}, {numbers[limits][at]}": (
            path,
            limits,
            numbers[limits][at : at + CHUNK],
            covered is not None,
        )
        for at in range(0, max(map(len, numbers.values())), CHUNK)
        for limits, path in programs.items()
        if at < len(numbers[limits])
    }
    for _, (outcomes, counts) in each(_share, seed, shares, jobs=jobs, dask=dask):
        if covered is not None:
            covered.update(counts)
        yield from outcomes


def _share(
    seed: int, case: tuple[Path | None, Config, range, bool]
) -> tuple[list[Judged], dict[str, int]]:
    path, limits, numbers, counts = case
    if not counts:
        return chunk(path or program(limits), limits, seed, numbers), {}
    with tempfile.TemporaryDirectory(prefix="bert2rtl-") as folder:
        data = Path(folder) / "coverage.dat"
        outcomes = chunk(path or program(limits, **COVERAGE), limits, seed, numbers, data)
        points = (line.rsplit(" ", 1) for line in data.read_text().splitlines()[1:])
        return outcomes, {point: int(count) for point, count in points}

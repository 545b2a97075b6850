"""Many cases in a few processes: build, play, judge."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.workers import each

from rtl.interface.config import Config, array
from sim.design import generated
from sim.machine.inference import Client
from sim.machine.machine import Machine, library
from sim.machine.result import Result
from verify.fuzz.cases import built
from verify.fuzz.judge import judge
from verify.fuzz.subject import Case

RESET = 2
"""Cycles of it before each case."""

AGAIN = 4
"""Times that a run takes what is left."""

CHUNK = 200

COVERAGE: dict[str, Any] = {
    "variant": "-coverage",
    "flags": ("--coverage-line", "--coverage-toggle"),
}
"""What `program` takes for one that counts what is covered."""

Shown = list[tuple[int, Result]]
"""What a case showed: the places of its runs, of which one may be played several times."""


@dataclass(frozen=True)
class Judged:
    """What came of one case; `wrong` is empty when it was right."""

    limits: Config
    number: int
    kind: str
    wrong: list[str]
    codes: tuple[int, ...]


def program(limits: Config, **build: Any) -> Path:
    """The machine of these limits; `build` as in `sim.machine.machine.library`."""
    return library(generated("accelerator", limits), **build)


def shown(machine: Machine, case: Case) -> Shown:
    """Play a case on a machine with an odd client."""
    machine.restart(RESET, case.number)
    found: Shown = []
    for place, run in enumerate(case.runs):
        rest = bool(run.client & Client.REST)
        for _ in range(AGAIN if rest else 1):
            if not rest or found[-1][1].left:
                named = run.but(name=f"case {case.number}, run {place}")
                found.append((place, machine.run(named)))
    return found


def observed(machine: Machine, seed: int, numbers: Sequence[int]) -> Iterator[tuple[Case, Shown]]:
    """Each case of these numbers, and what it showed."""
    for case in [built(seed, machine.config, number) for number in numbers]:
        yield case, shown(machine, case)


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
        The library of each; None: whoever plays a case builds it first.
    jobs, dask
        As for `cli.workers.each`.
    covered
        Where the programs count what is covered: the sum, by what Verilator calls each point.

    Raises SimulatorError: Verilator found something fatal in the design.
    """
    shares = {}
    for at in range(0, max(map(len, numbers.values())), CHUNK):
        for limits, path in programs.items():
            if part := numbers[limits][at : at + CHUNK]:
                name = f"{array(limits.lanes, limits.tile_columns)}, {part[0]}"
                shares[name] = path, limits, part, covered is not None
    for _, (outcomes, counts) in each(_share, seed, shares, jobs=jobs, dask=dask):
        if covered is not None:
            covered.update(counts)
        yield from outcomes


def _share(
    seed: int, share: tuple[Path | None, Config, range, bool]
) -> tuple[list[Judged], dict[str, int]]:
    """Play and judge these cases; with what a program that was built for it has covered."""
    path, limits, numbers, counts = share
    path, outcomes, covered = path or program(limits, **COVERAGE if counts else {}), [], {}
    with Machine(path, limits, odd=True) as machine:
        for case, facts in list(observed(machine, seed, numbers)):  # sooner than in turn
            codes = tuple(run.code for _, run in facts if run.status >= 0)
            wrong = judge(case, facts)
            outcomes.append(Judged(limits, case.number, case.kind, wrong, codes))
        if counts:
            with tempfile.TemporaryDirectory(prefix="bert2rtl-") as folder:
                data = Path(folder) / "coverage.dat"
                machine.cover(data)
                points = (line.rsplit(" ", 1) for line in data.read_text().splitlines()[1:])
                covered = {point: int(count) for point, count in points}
    return outcomes, covered

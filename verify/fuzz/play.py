"""Many cases in a few processes: build, play, judge."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.workers import each

from sim.builds import build_harness
from sim.design import Design, generated
from sim.harness.names import HEADER, header
from sim.simulators import SimulatorError
from verify.fuzz.cases import built
from verify.fuzz.job import Case, job_file
from verify.fuzz.judge import judge
from verify.fuzz.subject import Subject, config, subjects

HERE = Path(__file__).parent
PATIENCE = 2_500
"""Cycles without progress that count as a hang; no row or pause of a case is that long."""

CHUNK = 200


@dataclass(frozen=True)
class Judged:
    """What came of one case; `wrong` is empty when it was right."""

    lanes: int
    number: int
    kind: str
    wrong: list[str]
    codes: tuple[int, ...]


def program(
    lanes: int, design: Design | None = None, variant: str = "", flags: Sequence[str] = ()
) -> Path:
    """The built fuzzer of that many lanes, or of another design with the same ports.

    flags
        Further ones of Verilator.
    """
    found = generated("accelerator", config(lanes)) if design is None else design
    return build_harness(
        found,
        [HERE / "main.cpp"],
        headers={HEADER: header()},
        variant=f"fuzz{variant}",
        flags=flags,
    )


def observed(
    program: Path,
    lanes: int,
    seed: int,
    numbers: Sequence[int],
    coverage: Path | None = None,
    mutant: int = 0,
) -> Iterator[tuple[Case, tuple[Subject, ...], dict[str, Any]]]:
    """`shown` of the cases of these numbers."""
    return shown(program, lanes, [built(seed, lanes, n) for n in numbers], coverage, mutant)


def shown(
    program: Path,
    lanes: int,
    found: Sequence[tuple[Case, tuple[Subject, ...]]],
    coverage: Path | None = None,
    mutant: int = 0,
) -> Iterator[tuple[Case, tuple[Subject, ...], dict[str, Any]]]:
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
    tables = [subject.table for subject in subjects(lanes)]
    with tempfile.TemporaryDirectory(prefix="bert2rtl-") as folder:
        path = Path(folder) / "cases"
        path.write_bytes(job_file(config(lanes), PATIENCE, tables, [case for case, _ in found]))
        command: list[str | Path] = [program, path, str(os.getpid())]
        command += [coverage] if coverage else []
        environment = os.environ | {"BERT2RTL_MUTANT": str(mutant)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = done.stdout.splitlines()
    for (case, played), line in zip(found, lines):
        yield case, played, json.loads(line)
    if done.returncode or len(lines) != len(found):
        raise SimulatorError(
            f"the simulation ended with code {done.returncode} in case "
            f"{found[min(len(lines), len(found) - 1)][0].number} of {lanes} lanes: "
            f"{done.stderr.strip()}"
        )


def chunk(program: Path, lanes: int, seed: int, numbers: Sequence[int]) -> list[Judged]:
    """Play and judge these cases; errors as for `observed`."""
    outcomes = []
    for case, played, facts in observed(program, lanes, seed, numbers):
        codes = tuple(run["status"] >> 8 & 15 for run in facts["runs"] if run["status"] >= 0)
        wrong = judge(case, played, facts)
        outcomes.append(Judged(lanes, case.number, case.kind, wrong, codes))
    return outcomes


def play(
    programs: Mapping[int, Path | None],
    seed: int,
    numbers: range,
    jobs: int = 1,
    dask: str | None = None,
) -> Iterator[Judged]:
    """The outcomes of these cases for each number of lanes, in order.

    programs
        Built fuzzer by lanes; None: whoever plays a case builds it first.
    jobs, dask
        As for `cli.workers.each`.
    """
    shares = {
        f"{lanes} lanes, {numbers[at]}": (path, lanes, numbers[at : at + CHUNK])
        for at in range(0, len(numbers), CHUNK)
        for lanes, path in programs.items()
    }
    for _, outcomes in each(_share, seed, shares, jobs=jobs, dask=dask):
        yield from outcomes


def _share(seed: int, case: tuple[Path | None, int, range]) -> list[Judged]:
    path, lanes, numbers = case
    return chunk(path or program(lanes), lanes, seed, numbers)

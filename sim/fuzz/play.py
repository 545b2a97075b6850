"""Many cases in a few processes: build, play, judge."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sim.builds import build_harness
from sim.design import Design, generated
from sim.fuzz.cases import built
from sim.fuzz.job import job_file
from sim.fuzz.judge import judge
from sim.fuzz.subject import config, subjects
from sim.harness.names import HEADER, header
from sim.simulators import SimulatorError

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


def program(lanes: int, design: Design | None = None, variant: str = "") -> Path:
    """The built fuzzer of that many lanes, or of another design with the same ports."""
    found = generated("accelerator", config(lanes)) if design is None else design
    return build_harness(
        found, [HERE / "main.cpp"], headers={HEADER: header()}, variant=f"fuzz{variant}"
    )


def chunk(program: Path, lanes: int, seed: int, numbers: list[int]) -> list[Judged]:
    """Play these cases.

    Raises
    ------
    SimulatorError
        The simulation died.
    """
    found = [built(seed, lanes, number) for number in numbers]
    tables = [subject.table for subject in subjects(lanes)]
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="bert2rtl-") as folder:
        path = Path(folder) / "cases"
        path.write_bytes(job_file(lanes, PATIENCE, tables, [case for case, _ in found]))
        done = subprocess.run([program, path, str(os.getpid())], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    for (case, played), line in zip(found, lines):
        facts = json.loads(line)
        codes = tuple(run["status"] >> 8 & 15 for run in facts["runs"] if run["status"] >= 0)
        wrong = judge(case, played, facts)
        outcomes.append(Judged(lanes, case.number, case.kind, wrong, codes))
    if done.returncode or len(lines) != len(found):
        raise SimulatorError(
            f"the simulation ended with code {done.returncode} in case "
            f"{numbers[min(len(lines), len(numbers) - 1)]} of {lanes} lanes: {done.stderr.strip()}"
        )
    return outcomes


def play(programs: dict[int, Path], seed: int, numbers: range, jobs: int = 1) -> Iterator[Judged]:
    """The outcomes of these cases for each number of lanes, in order.

    programs
        Built fuzzer by lanes.
    """
    shares = [
        (path, lanes, seed, list(numbers[at : at + CHUNK]))
        for at in range(0, len(numbers), CHUNK)
        for lanes, path in programs.items()
    ]
    if jobs == 1 or len(shares) == 1:
        for share in shares:
            yield from chunk(*share)
        return
    with ProcessPoolExecutor(jobs) as pool:
        try:
            for outcomes in pool.map(chunk, *zip(*shares)):
                yield from outcomes
        finally:
            pool.shutdown(cancel_futures=True)

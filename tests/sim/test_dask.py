"""The commands with --dask: the same report, bit for bit, whoever does the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quant import evaluate
from quant.calibrate import ensure
from sim import regress
from tests.cli.test_workers import scheduler, serving
from verify.fuzz import __main__ as fuzz

#: By command: its work, how processes here share it, what is in the report, counts of workers.
COMMANDS: dict[str, tuple[Callable[[list[str]], int], str, list[str], bytes, tuple[int, ...]]] = {
    "fuzz": (
        fuzz.main, "--cases 450 --lanes 4 --seed 5", ["--jobs 1", "--jobs 3"],
        b'"cases": 450', (1, 3),
    ),
    "regress": (
        regress.main, "--reviews 20 --tokens 12 --lanes 4 --trace-sample 3 --stalls 4",
        ["--jobs 2"], b'"texts": 20', (1, 2, 3),
    ),
    "evaluate": (evaluate.main, "--samples 150 --tokens 24", [""], b'"texts": 150', (1, 3)),
}  # fmt: skip


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with scheduler() as (_, found):
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_the_report_is_the_same(name: str, address: str, tmp_path: Path) -> None:
    """Processes here, and workers there; of fuzzing there are three shares of cases."""
    main, work, here, said, counts = COMMANDS[name]
    given = [*work.split(), *(["--quantized", str(ensure())] if name == "evaluate" else [])]
    reports = []

    def play(*arguments: str) -> None:
        out = tmp_path / "report.json"
        assert main([*given, *arguments, "--json", str(out)]) == 0
        reports.append(out.read_bytes())

    for jobs in here:
        play(*jobs.split())
    for count in counts:
        with serving(address, count):
            play("--dask", address)
    assert said in reports[0]
    assert reports == [reports[0]] * (len(here) + len(counts))

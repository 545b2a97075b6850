"""The commands with --dask: the same report, bit for bit, whoever does the work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quant import evaluate
from quant.calibrate import ensure
from sim import regress
from tests.cli.test_workers import scheduler, serving
from verify.fuzz import __main__ as fuzz

FUZZ = ["--cases", "450", "--lanes", "4", "--seed", "5"]
REGRESS = ["--reviews", "20", "--tokens", "12", "--lanes", "4", "--trace-sample", "3"]
EVALUATE = ["--samples", "150", "--tokens", "24"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with scheduler() as (_, found):
        yield found


@pytest.mark.slow
def test_fuzzing(address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Processes here and workers there, 1 and 3 of them; there are three shares of cases."""
    reports = []

    def play(*arguments: str) -> None:
        out = tmp_path / "fuzz.json"
        assert fuzz.main([*FUZZ, *arguments, "--json", str(out)]) == 0
        reports.append(out.read_bytes())

    for jobs in (1, 3):
        play("--jobs", str(jobs))
    for count in (1, 3):
        with serving(address, count):
            play("--dask", address)
    assert b'"cases": 450' in reports[0]
    assert reports == [reports[0]] * 4
    assert "450 cases in " in capsys.readouterr().out


@pytest.mark.slow
def test_regression(address: str, tmp_path: Path) -> None:
    reports = []
    for count in (0, 1, 2, 3):
        out = tmp_path / f"{count}.json"
        there = ["--dask", address] if count else ["--jobs", "2"]
        with serving(address, count):
            arguments = [*REGRESS, "--stalls", "4", *there, "--json", str(out)]
            assert regress.main(arguments) == 0
        reports.append(out.read_bytes())
    assert b'"texts": 20' in reports[0]
    assert reports == [reports[0]] * 4


@pytest.mark.slow
def test_evaluation(address: str, tmp_path: Path) -> None:
    quantized, reports = str(ensure()), []
    for count in (0, 1, 3):
        out = tmp_path / f"{count}.json"
        there = ["--dask", address] if count else []
        with serving(address, count):
            arguments = [*EVALUATE, "--quantized", quantized, *there, "--json", str(out)]
            assert evaluate.main(arguments) == 0
        reports.append(out.read_bytes())
    assert b'"texts": 150' in reports[0]
    assert reports == [reports[0]] * 3

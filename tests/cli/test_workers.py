"""Keyed cases over processes: each once, in order, whatever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cli.errors import ToolError
from cli.workers import each

import pytest

from tests.cli import cases

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = {f"case {number}": number for number in (5, 3, 8, 0, 1, 2, 9, 4)}


def alive(pid: int) -> bool:
    """Whether a process runs (a dead one that nobody has waited for does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(what: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_results_come_in_the_order_of_the_cases(jobs: int) -> None:
    found = list(each(cases.square, 100, NUMBERS, jobs=jobs))
    assert found == [(key, 100 + number * number) for key, number in NUMBERS.items()]


def test_no_case_is_nothing() -> None:
    assert list(each(cases.square, 0, {}, jobs=2)) == []


def test_one_job_runs_here_and_two_do_not() -> None:
    assert {pid for _, pid in each(cases.here, None, NUMBERS)} == {os.getpid()}
    others = {pid for _, pid in each(cases.here, None, NUMBERS, jobs=2)}
    assert os.getpid() not in others
    assert len(others) <= 2


def test_the_cases_of_a_killed_worker_run_again(tmp_path: Path) -> None:
    found = list(each(cases.deadly, tmp_path, NUMBERS, jobs=2))
    assert len(list(tmp_path.glob("began-3-*"))) == 2
    assert found == list(NUMBERS.items())


def test_a_case_that_kills_its_workers_is_given_up(tmp_path: Path) -> None:
    told = r"^case seven: 3 processes that ran it died, the last with signal 9$"
    with pytest.raises(ToolError, match=told):
        list(each(cases.deadly, tmp_path, {"one": 1, "seven": 7, "two": 2}, jobs=2))


def test_an_error_of_a_case_is_raised_here() -> None:
    with pytest.raises(ValueError, match="case 2") as caught:
        list(each(cases.failing, "", NUMBERS, jobs=2))
    assert str(caught.value) == "case 2 is bad"
    assert "in failing" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match=r"(?s)in failing.*Odd: 1 and 2"):
        list(each(cases.failing, "odd", NUMBERS, jobs=2))


def test_leaving_early_ends_the_workers(tmp_path: Path) -> None:
    results = each(cases.waiting, tmp_path, NUMBERS, jobs=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cli.workers.wait", lambda pipes: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            next(results)
    until(lambda: not any(alive(int(p.name[4:])) for p in tmp_path.iterdir()))


def test_workers_end_with_a_command_that_is_killed(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; from cli.workers import each; from tests.cli import cases\n"
        f"list(each(cases.waiting, Path({str(tmp_path)!r}), dict(a=1, b=2), jobs=2))"
    )
    command = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT)
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    command.send_signal(signal.SIGKILL)
    command.wait()
    workers = [int(path.name[4:]) for path in tmp_path.iterdir()]
    until(lambda: not any(map(alive, workers)), 5)


def test_a_function_of_the_command_itself_is_refused() -> None:
    def local(shared: int, case: int) -> int:
        return case

    local.__module__ = "__main__"
    with pytest.raises(TypeError, match="local is of __main__, which no worker can import"):
        each(local, 0, {"a": 1}, jobs=2)

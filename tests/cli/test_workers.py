"""Keyed cases over processes or a dask scheduler: each once, in order; a dead worker is told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cli import workers
from cli.errors import ToolError, UserError
from cli.machine import ROOT
from cli.workers import each

import pytest

from tests.cli import cases

NUMBERS = {f"case {number}": number for number in (5, 3, 8, 0, 1, 2, 9, 4)}
SQUARES = [(key, 100 + number * number) for key, number in NUMBERS.items()]


def check(**where: Any) -> None:
    """The same results, and the same sentences, wherever the cases run."""
    assert list(each(cases.square, 100, NUMBERS, **where)) == SQUARES
    with pytest.raises(ValueError, match=r"^case 2 is bad$"):
        list(each(cases.square, 0, NUMBERS, **where))


def check_death(**where: Any) -> None:
    with pytest.raises(
        ToolError, match=r"^(one|seven), or a case beside it: its process has gone$"
    ):
        list(each(cases.square, 1, {"one": 1, "seven": 7}, **where))


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_cases(jobs: int) -> None:
    check(jobs=jobs)
    if jobs > 1:
        check_death(jobs=jobs)


def until(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def alive(pid: str) -> bool:
    """Whether a process runs (a dead one that nobody has waited for does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_processes_end_with_their_command(sign: int, code: int, tmp_path: Path) -> None:
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pathlib import Path; from cli.command import run_command\n"
        "from cli.workers import each; from tests.cli import cases\n"
        f"waiting = each(cases.waiting, Path({str(tmp_path)!r}), dict(a=1, b=2), jobs=2)\n"
        "raise SystemExit(run_command(lambda: list(waiting)))"
    )
    words = [sys.executable, "-c", script]
    command = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    command.send_signal(sign)
    said = command.communicate(timeout=20)[1]
    assert command.returncode == code
    assert (said == "interrupted: nothing was written\n") == (code > 0)
    until(lambda: not any(alive(path.name[4:]) for path in tmp_path.iterdir()))


@contextmanager
def dask(*words: str, count: int = 1) -> Iterator[subprocess.Popen]:
    command = [sys.executable, "-m", "dask", *words, "--no-dashboard"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    quiet = {"cwd": ROOT, "env": environment, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen(command, **quiet) for _ in range(count)]
    try:
        yield processes[0] if processes else None
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextmanager
def scheduler() -> Iterator[tuple[subprocess.Popen, str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with dask("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-show") as process:
        yield process, f"tcp://127.0.0.1:{port}"


def serving(address: str, count: int = 1):
    return dask("worker", address, "--nthreads", "1", "--no-nanny", count=count)


@pytest.mark.slow
def test_dask_gives_the_same_results_and_says_what_has_gone() -> None:
    with pytest.raises(ToolError, match="other sources: "):
        workers._there("another", 1, cases.square, 1)
    with scheduler() as (process, address):
        with serving(address, 4):
            check(dask=address)
            check_death(dask=address)
        with serving(address):
            results = each(cases.square, 1, {str(n): 3 for n in range(1000)}, dask=address)
            next(results)
            process.kill()
            with pytest.raises(ToolError, match="its process has gone"):
                list(results)


@pytest.mark.parametrize("given", ["", "nonsense://here:1", "8", "tcp://127.0.0.1:1"])
def test_an_address_without_a_scheduler_is_told_soon(given, monkeypatch):
    monkeypatch.setattr(workers, "CONNECT_SECONDS", 1)
    with pytest.raises((ToolError, UserError), match=f"(--dask|to) {given}"):
        list(each(cases.square, 1, NUMBERS, dask=given))

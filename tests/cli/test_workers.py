"""Keyed cases over processes or a dask scheduler: each once, in order; a dead worker is named."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cli import workers
from cli.errors import ToolError
from cli.machine import ROOT
from cli.workers import each

import pytest

from tests.cli import cases

NUMBERS = {f"case {number}": number for number in (5, 3, 8, 0, 1, 2, 9, 4)}
SQUARES = [(key, 100 + number * number) for key, number in NUMBERS.items()]
DASK = ("-m", "dask")


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


@pytest.mark.parametrize("jobs", [1, 3])
def test_results_come_in_the_order_of_the_cases(jobs: int) -> None:
    assert list(each(cases.square, 100, NUMBERS, jobs=jobs)) == SQUARES
    assert list(each(cases.square, 0, {}, jobs=jobs)) == []
    processes = {pid for _, pid in each(cases.here, None, NUMBERS, jobs=jobs)}
    assert processes == {os.getpid()} if jobs == 1 else os.getpid() not in processes
    assert len(processes) <= jobs


def test_a_case_that_kills_its_process_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"^case seven: the process that ran it died$"):
        list(each(cases.deadly, tmp_path, {"one": 1, "seven": 7, "two": 2}, jobs=2))


def test_an_error_of_a_case_is_raised_here_and_ends_the_processes(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^case 2 is bad$") as caught:
        list(each(cases.failing, None, NUMBERS, jobs=2))
    assert "in failing" in str(caught.value.__cause__)
    results = each(cases.waiting, tmp_path, NUMBERS, jobs=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cli.workers.wait", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            next(results)
    assert not any(alive(int(path.name[4:])) for path in tmp_path.iterdir())


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_processes_end_with_their_command(sign: int, code: int, tmp_path: Path) -> None:
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pathlib import Path; from cli.command import run_command\n"
        "from cli.workers import each; from tests.cli import cases\n"
        f"waiting = each(cases.waiting, Path({str(tmp_path)!r}), dict(a=1, b=2), jobs=2)\n"
        "raise SystemExit(run_command(lambda: list(waiting)))"
    )
    command = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    command.send_signal(sign)
    said = command.communicate(timeout=20)[1]
    assert command.returncode == code
    assert (said == "interrupted: nothing was written\n") == (code > 0)
    until(lambda: not any(alive(int(path.name[4:])) for path in tmp_path.iterdir()), 5)


def test_a_function_of_the_command_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases.square, "__module__", "__main__")
    with pytest.raises(TypeError, match="square is of __main__, which no worker can import"):
        list(each(cases.square, 0, {"a": 1}, jobs=2))


@contextmanager
def dask(*words: str, cwd: Path = ROOT, start: Sequence[str] = DASK, count: int = 1) -> Iterator:
    environment = os.environ | {"PYTHONPATH": str(cwd)}
    command = [sys.executable, *start, *words, "--no-dashboard"]
    quiet = {"cwd": cwd, "env": environment, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen(command, **quiet) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextmanager
def scheduler() -> Iterator[tuple[subprocess.Popen, str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with dask("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-show") as (process,):
        yield process, f"tcp://127.0.0.1:{port}"


def serving(address: str, count: int = 1, **options):
    return dask("worker", address, "--nthreads", "1", "--no-nanny", count=count, **options)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with scheduler() as (_, found):
        yield found


@pytest.mark.slow
def test_dask_gives_the_same_results_whoever_dies(address: str, tmp_path: Path) -> None:
    with serving(address, 2):
        assert list(each(cases.square, 100, NUMBERS, dask=address)) == SQUARES
        with pytest.raises(ValueError, match=r"^case 2 is bad$"):
            list(each(cases.failing, None, NUMBERS, dask=address))
        assert list(each(cases.deadly, tmp_path, NUMBERS, dask=address)) == list(NUMBERS.items())
    # Alone: of two cases on a worker that dies, the scheduler blames either.
    with serving(address, 4), pytest.raises(ToolError, match=r"^case seven: the workers that"):
        list(each(cases.deadly, tmp_path, {"seven": 7}, dask=address))


def test_workers_of_another_commit_or_without_the_project_are_refused(
    address: str, tmp_path: Path
) -> None:
    for package in ("cli", "tests"):
        (tmp_path / package).symlink_to(ROOT / package)
    (tmp_path / "cli").unlink()
    (tmp_path / "cli").mkdir()
    for path in (ROOT / "cli").glob("*.py"):
        (tmp_path / "cli" / path.name).write_bytes(path.read_bytes() + b"# another\n")
    without = "import sys; sys.modules['cli'] = None; from dask.__main__ import main; main()"
    for start in (DASK, ("-c", without)):
        with (
            serving(address, cwd=tmp_path, start=start),
            pytest.raises(ToolError, match=r"the worker tcp://.* has other sources: "),
        ):
            list(each(cases.square, 1, NUMBERS, dask=address))


@pytest.mark.slow
def test_a_scheduler_that_goes_is_told() -> None:
    with scheduler() as (process, own), serving(own):
        results = each(cases.slow, None, {str(n): n for n in range(50)}, dask=own)
        next(results)
        process.kill()
        with pytest.raises(ToolError, match=f"the scheduler at {own} has gone"):
            list(results)


@pytest.mark.slow
def test_an_address_without_a_scheduler_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "CONNECT_SECONDS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        heard = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        wrong = ["", "nonsense://here:1", "tcp://127.0.0.1", "tcp://127.0.0.1:99999", "8"]
        for given in (heard, "tcp://127.0.0.1:1", *wrong):
            began = time.monotonic()
            with pytest.raises((ToolError, ValueError)) as caught:
                list(each(cases.square, 1, NUMBERS, dask=given))
            assert f" {given}" in str(caught.value)
            assert "\n" not in str(caught.value)
            assert time.monotonic() - began < 30

"""Cases over the workers of a dask scheduler: the same results, whoever dies."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cli import cluster
from cli.errors import ToolError
from cli.workers import each

import pytest

from tests.cli import cases
from tests.cli.test_workers import NUMBERS, ROOT
from tests.tiers import quick

Process = subprocess.Popen[bytes]


@contextmanager
def ended(process: Process) -> Iterator[Process]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def dask(*words: str, cwd: Path = ROOT, start: Sequence[str] = ("-m", "dask")) -> Process:
    environment = os.environ | {"PYTHONPATH": str(cwd)}
    command = [sys.executable, *start, *words]
    return subprocess.Popen(command, cwd=cwd, env=environment, stderr=subprocess.DEVNULL)


@contextmanager
def scheduler(folder: Path, port: int = 0) -> Iterator[tuple[Process, str]]:
    """A scheduler of one's own, and its address."""
    with socket.create_server(("127.0.0.1", port)) as free:
        port = free.getsockname()[1]
    words = ("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
    with ended(dask(*words, "--no-show")) as process:
        yield process, f"tcp://127.0.0.1:{port}"


@contextmanager
def workers(
    address: str, count: int, cwd: Path = ROOT, **options: Sequence[str]
) -> Iterator[list[Process]]:
    words = ("worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
    found = [dask(*words, cwd=cwd, **options) for _ in range(count)]
    try:
        yield found
    finally:
        for process in found:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with scheduler(tmp_path_factory.mktemp("dask")) as (_, found):
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("count", quick([3, 1]))
def test_the_results_do_not_depend_on_the_workers(address: str, count: int) -> None:
    here = list(each(cases.square, 100, NUMBERS))
    with workers(address, count):
        assert list(each(cases.square, 100, NUMBERS, dask=address)) == here


@pytest.mark.slow
def test_the_cases_of_a_killed_worker_run_again(address: str, tmp_path: Path) -> None:
    with workers(address, 2) as found:
        assert list(each(cases.deadly, tmp_path, NUMBERS, dask=address)) == list(NUMBERS.items())
        assert {path.name for path in tmp_path.glob("began-3-*")} == {
            f"began-3-{process.pid}" for process in found
        }


@pytest.mark.slow
def test_a_case_that_kills_its_workers_is_given_up(address: str, tmp_path: Path) -> None:
    with (
        workers(address, 4),  # the scheduler forgives a case three of them
        pytest.raises(ToolError, match=r"^case seven: the workers that"),
    ):
        # Alone: of two cases on a worker that dies, the scheduler blames either.
        list(each(cases.deadly, tmp_path, {"seven": 7}, dask=address))


@pytest.mark.slow
def test_an_error_of_a_case_is_raised_here(address: str) -> None:
    with workers(address, 1), pytest.raises(ValueError, match=r"^case 2 is bad$"):
        list(each(cases.failing, "", NUMBERS, dask=address))


def test_workers_of_another_commit_are_refused(address: str, tmp_path: Path) -> None:
    for package in ("cli", "tests"):
        (tmp_path / package).symlink_to(ROOT / package)
    (tmp_path / "cli").unlink()
    (tmp_path / "cli").mkdir()
    for path in (ROOT / "cli").glob("*.py"):
        (tmp_path / "cli" / path.name).write_bytes(path.read_bytes() + b"# another\n")
    with workers(address, 1, tmp_path), pytest.raises(ToolError, match="has other sources than"):
        list(each(cases.square, 1, NUMBERS, dask=address))


def test_workers_without_the_project_are_refused(address: str, tmp_path: Path) -> None:
    without = "import sys; sys.modules['cli'] = None; from dask.__main__ import main; main()"
    with (
        workers(address, 1, tmp_path, start=("-c", without)),
        pytest.raises(ToolError, match=r"the worker .* has no module cli[.:]"),
    ):
        list(each(cases.square, 1, NUMBERS, dask=address))


@pytest.mark.slow
def test_a_scheduler_that_goes_is_told(tmp_path: Path) -> None:
    with scheduler(tmp_path) as (process, own), workers(own, 1):
        results = each(cases.slow, None, {str(n): n for n in range(50)}, dask=own)
        next(results)
        process.kill()
        with pytest.raises(ToolError, match=f"the scheduler at {own} has gone"):
            list(results)


def refused(address: str) -> tuple[str, float]:
    began = time.monotonic()
    with pytest.raises((ToolError, ValueError)) as caught:
        list(each(cases.square, 1, NUMBERS, dask=address))
    return str(caught.value), time.monotonic() - began


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds, where a user waits for ten."""
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", cluster.CONNECT_SECONDS // 5)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_an_address_without_a_scheduler_is_told_soon() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        told, seconds = refused(f"tcp://127.0.0.1:{port}")
        assert told.startswith(f"no dask scheduler answers at tcp://127.0.0.1:{port} (")
        assert seconds < 30
    told, seconds = refused(f"tcp://127.0.0.1:{port}")
    assert told.startswith(f"no dask scheduler answers at tcp://127.0.0.1:{port} (")
    assert "`.venv/bin/dask scheduler`" in told
    assert seconds < 30


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "wrong",
    ["", "nonsense://here:1", "tcp://127.0.0.1", "tcp://127.0.0.1:99999", "no such host", "8"],
)
def test_an_address_that_is_none_is_told_soon(wrong: str) -> None:
    told, seconds = refused(wrong)
    assert "\n" not in told
    assert f" {wrong}" in told
    assert seconds < 30

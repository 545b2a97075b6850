"""Many cases over local processes, or over the workers of a dask.distributed scheduler."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from copy import copy
from functools import cache, partial
from typing import Any, TypeVar

from cli.errors import ToolError, UserError
from cli.machine import ROOT
from cli.progress import stage

R = TypeVar("R")
CONNECT_SECONDS = 10
LOST = ("BrokenProcessPool", "CancelledError", "FutureCancelledError", "KilledWorker")

_shared: Any = None
_one = threading.Lock()  # a simulation changes the environment of its process


def each(
    function: Callable[[Any, Any], R],
    shared: Any,
    cases: Mapping[str, Any],
    *,
    jobs: int = 1,
    dask: str | None = None,
) -> Iterator[tuple[str, R]]:
    """Key and `function(shared, case)` of every case, in the order of the cases, each once.

    `jobs` processes run them, this one alone for 1, or the workers of the scheduler at `dask`.
    Leaving the iteration early ends the workers. What `function` raises is raised here.
    """
    if dask is None and (jobs == 1 or len(cases) < 2):
        for key, case in cases.items():
            yield key, function(shared, case)
        return
    with (
        _processes(shared, min(jobs, len(cases))) if dask is None else _cluster(shared, dask) as do
    ):
        futures = {key: do(function, case) for key, case in cases.items()}
        for key in cases:
            try:
                result = futures.pop(key).result()
            except Exception as error:
                if type(error).__name__ not in LOST:
                    raise
                raise ToolError(f"{key}, or a case beside it: its process has gone") from None
            yield key, result


@contextmanager
def _processes(shared: Any, jobs: int) -> Iterator[Callable[..., Future[Any]]]:
    """How a case is given to one of so many processes, which end with this one."""
    context = multiprocessing.get_context("spawn")  # threads of libraries do not survive a fork
    pool = ProcessPoolExecutor(jobs, context, _begin, (shared,))
    try:
        yield lambda function, case: pool.submit(_here, function, case)
    finally:
        for child in multiprocessing.active_children():
            child.kill()
        pool.shutdown(cancel_futures=True)


def _begin(shared: Any) -> None:
    """Keep what all cases need, leave Ctrl-C to the parent, and end with it."""
    global _shared
    _shared = shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _here(function: Callable[[Any, Any], Any], case: Any) -> Any:
    return function(_shared, case)


@contextmanager
def _cluster(shared: Any, address: str) -> Iterator[Callable[..., Future[Any]]]:
    """How a case is given to the workers of a scheduler."""
    from distributed import Client

    stage(f"connecting to {address}")
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        client.wait_for_workers(1, CONNECT_SECONDS)
    except ValueError as error:
        raise UserError(f"--dask {address}: {error}; give tcp://HOST:PORT") from None
    except OSError as error:
        raise ToolError(f"{error}: start `.venv/bin/dask scheduler`, and workers") from None
    with client, warnings.catch_warnings(action="ignore"):  # that what is shared is large
        # Submitted, not scattered: the scheduler can make it again when its holders have died.
        common = client.submit(copy, shared, pure=False)
        yield partial(client.get_executor(pure=False).submit, _there, sources(), common)


def _there(digest: str, shared: Any, function: Callable[[Any, Any], Any], case: Any) -> Any:
    """`function(shared, case)` on a worker of dask, one at a time in a process."""
    if sources() != digest:
        raise ToolError("a worker has other sources: start it in a clone of this commit")
    with _one:
        return function(shared, case)


@cache
def sources() -> str:
    """Hash of the project's own sources, as they lie on this machine."""
    files = (path for package in ROOT.glob("*/__init__.py") for path in package.parent.rglob("*.*"))
    code = sorted(path for path in files if path.suffix in {".py", ".cpp", ".h"})
    return hashlib.sha256(b"".join(path.read_bytes() for path in code)).hexdigest()

"""Many cases over local processes, or over the workers of a dask.distributed scheduler.

A command takes part with three lines:

    add_jobs(parser, "simulations"); add_dask(parser)                # cli.options: --jobs, --dask
    cases = {"4-0": (4, range(200)), "4-200": (4, range(200, 400))}  # by key, in the report's order
    for key, result in each(play, shared, cases, jobs=options.jobs, dask=options.dask): ...

`play` stands in a module that can be imported, and dask may run it again for the same case.
`shared` is what all cases need: each process gets it once.
"""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import queue
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from copy import copy
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeVar

from cli.errors import ToolError, UserError
from cli.machine import ROOT, find_places
from cli.progress import stage

R = TypeVar("R")
CONNECT_SECONDS = 10
OTHER_SOURCES = "other sources: start it in a clone of this commit, with the Python of its .venv"

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
    if function.__module__ == "__main__":
        raise TypeError(f"{function.__qualname__} is of __main__, which no worker can import")
    if dask is None and (jobs == 1 or len(cases) < 2):
        for key, case in cases.items():
            yield key, function(shared, case)
        return
    found: dict[str, R] = {}
    busy: dict[Future[R], tuple[str, Callable[..., Future[R]]]] = {}
    waiting = iter(cases.items())
    count = len(cases)
    workers = _local(shared, min(jobs, count)) if dask is None else _cluster(shared, dask, count)
    with workers as free:
        for key in cases:
            while key not in found:
                while free and (following := next(waiting, None)):
                    submit = free.pop()
                    busy[submit(function, following[1])] = following[0], submit
                for future in wait(busy, return_when=FIRST_COMPLETED).done:
                    name, submit = busy.pop(future)
                    found[name] = _result(name, future, dask)
                    free.append(submit)
            yield key, found.pop(key)


def _result(key: str, future: Future[R], dask: str | None) -> R:
    """What a case has given; a dead worker is named by its case."""
    try:
        return future.result()
    except BrokenProcessPool:
        raise ToolError(f"case {key}: the process that ran it died") from None
    except CancelledError:
        raise ToolError(f"the scheduler at {dask} has gone") from None
    except Exception as error:
        if type(error).__name__ != "KilledWorker":
            raise
        raise ToolError(f"case {key}: the workers that had it died") from None


@contextmanager
def _local(shared: Any, jobs: int) -> Iterator[list[Callable[..., Future[Any]]]]:
    """How a case is given to each of so many processes; one a pool, to know whose case it was."""
    context = multiprocessing.get_context("spawn")  # threads of libraries do not survive a fork
    others = set(multiprocessing.active_children())
    begin = _begin, (shared, os.getpid())
    pools: list[Any] = [ProcessPoolExecutor(1, context, *begin) for _ in range(jobs)]
    try:
        yield [partial(pool.submit, _here) for pool in pools]
    finally:
        for child in set(multiprocessing.active_children()) - others:
            child.kill()
        for pool in pools:
            pool.shutdown(cancel_futures=True)


def _begin(shared: Any, parent: int) -> None:
    """Keep what all cases need, leave Ctrl-C to the parent, and end with it."""
    global _shared
    _shared = shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _here(function: Callable[[Any, Any], Any], case: Any) -> Any:
    return function(_shared, case)


@contextmanager
def _cluster(shared: Any, address: str, cases: int) -> Iterator[list[Callable[..., Future[Any]]]]:
    """How a case is given to the workers of a scheduler, which takes all cases at once."""

    def digest() -> object:  # local, so that it is sent whole and not by its name
        return import_module("cli.workers").sources()

    client = _connect(address)
    executor = client.get_executor(pure=False)
    try:
        if not client.scheduler_info(n_workers=-1)["workers"]:
            stage(f"{address} has no worker yet: waiting for one")
            client.wait_for_workers(1)
        for worker, found in client.run(digest, on_error="return").items():
            if found != sources():  # or an error: a case would end a worker that lacks our modules
                raise ToolError(f"the worker {worker} has {OTHER_SOURCES}")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            # Submitted, not scattered: the scheduler can make it again when its holders have died.
            common = client.submit(copy, shared, pure=False)
        yield [partial(executor.submit, _there, sources(), common)] * cases
    finally:
        if client.status == "running":
            executor.shutdown(wait=False)
        client.close(timeout=CONNECT_SECONDS)


def _connect(address: str) -> Any:
    """A client of the scheduler, connected apart: one that accepts and is silent holds it."""
    from distributed import Client

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    stage(f"connecting to {address}")
    answer: queue.Queue[Any] = queue.Queue()

    def connect() -> None:
        try:
            answer.put(Client(address, timeout=CONNECT_SECONDS, set_as_default=False))
        except Exception as error:
            answer.put(error)

    threading.Thread(target=connect, daemon=True).start()
    try:
        client = answer.get(timeout=2 * CONNECT_SECONDS)
    except queue.Empty:
        client = TimeoutError()
    if isinstance(client, ValueError):
        raise UserError(f"--dask {address}: {client}; give tcp://HOST:PORT")
    if isinstance(client, Exception):
        raise ToolError(
            f"no dask scheduler answers at {address} ({type(client).__name__}): start one with "
            "`.venv/bin/dask scheduler`"
        )
    return client


def _there(digest: str, shared: Any, function: Callable[[Any, Any], Any], case: Any) -> Any:
    """`function(shared, case)` on a worker of dask, one at a time in a process."""
    if sources() != digest:
        raise ToolError(f"a worker has {OTHER_SOURCES}")
    find_places()
    with _one:
        return function(shared, case)


@cache
def sources() -> str:
    """Hash of the project's own files, as they lie on this machine."""
    digest = hashlib.sha256()
    for package in sorted(ROOT.glob("*/__init__.py")):
        for path in sorted(package.parent.rglob("*")):
            if path.suffix in {".py", ".cpp", ".h"}:
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()

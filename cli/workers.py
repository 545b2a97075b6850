"""Many cases over local processes, or over the workers of a dask.distributed scheduler.

A command takes part with three lines:

    add_jobs(parser, "simulations"); add_dask(parser)                # cli.options: --jobs, --dask
    cases = {"4-0": (4, range(200)), "4-200": (4, range(200, 400))}  # by key, in the report's order
    for key, result in each(play, shared, cases, jobs=options.jobs, dask=options.dask): ...

- `play(shared, case)` stands in a module that can be imported, not in the command's own
  (`__main__`). It depends on its arguments alone, so it may run again: that is what happens to the
  cases of a worker that died. Inside, a case may build and simulate (builds are cached by content).
- `shared` is what all cases need (a model, a seed, options); each process gets it once.
- How the work is cut into cases must not depend on the number of workers. Results come in the order
  of the cases, so whatever is made of them does not depend on it either.
- All of it is pickled. A case of some seconds is a good size.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from cli.errors import ToolError

S = TypeVar("S")
C = TypeVar("C")
R = TypeVar("R")

TRIES = 3
"""How many workers a case may take with it before it is given up."""


def each(
    function: Callable[[S, C], R],
    shared: S,
    cases: Mapping[str, C],
    *,
    jobs: int = 1,
    dask: str | None = None,
) -> Iterator[tuple[str, R]]:
    """Key and `function(shared, case)` of every case, in the order of the cases, each once.

    Leaving the iteration early ends the workers, or takes back what dask has not begun.

    jobs
        Processes on this machine; 1 runs the cases in this process.
    dask
        Address of a scheduler; its workers run the cases, and `jobs` has no meaning.

    Raises
    ------
    ToolError
        The scheduler cannot be reached or has gone, its workers have other sources, or a case took
        TRIES workers with it.
    Exception
        What `function` raised.
    """
    if function.__module__ == "__main__":
        raise TypeError(f"{function.__qualname__} is of __main__, which no worker can import")
    if dask is not None:
        from cli import cluster

        results = cluster.results(function, shared, cases, dask)
    elif jobs == 1 or len(cases) < 2:
        return ((key, function(shared, case)) for key, case in cases.items())
    else:
        results = _local(function, shared, cases, jobs)
    return _in_order(list(cases), results)


def _in_order(keys: list[str], results: Iterator[tuple[str, R]]) -> Iterator[tuple[str, R]]:
    found: dict[str, R] = {}
    following = iter(keys)
    key = next(following, None)
    for came, result in results:
        found[came] = result
        while key is not None and key in found:
            yield key, found.pop(key)
            key = next(following, None)


class _Worker:
    """A process that runs one case after another; `key` is the one it has in hand."""

    def __init__(self, function: Callable[[Any, Any], Any], shared: Any) -> None:
        # A process made afresh: threads of libraries do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.key = ""
        self.process = context.Process(
            target=_serve, args=(theirs, function, shared, os.getpid()), daemon=False
        )
        self.process.start()
        theirs.close()

    def give(self, key: str, case: Any) -> None:
        self.key = key
        with suppress(BrokenPipeError):  # it died: reading the pipe tells
            self.pipe.send(case)

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _local(
    function: Callable[[S, C], R], shared: S, cases: Mapping[str, C], jobs: int
) -> Iterator[tuple[str, R]]:
    """Key and result of every case as they come."""
    waiting, deaths = deque(cases), Counter[str]()
    busy: dict[Connection, _Worker] = {}
    free: list[_Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < jobs:
                worker = free.pop() if free else _Worker(function, shared)
                busy[worker.pipe] = worker
                key = waiting.popleft()
                worker.give(key, cases[key])
            for pipe in wait(list(busy)):
                assert isinstance(pipe, Connection)
                worker = busy.pop(pipe)
                try:
                    good, value = pipe.recv()
                except (EOFError, OSError):
                    worker.end()
                    waiting.appendleft(worker.key)
                    deaths[worker.key] += 1
                    if deaths[worker.key] == TRIES:
                        raise ToolError(_died(worker.key, worker.process.exitcode)) from None
                    continue
                free.append(worker)
                if not good:
                    raise value
                yield worker.key, value
    finally:
        for worker in [*busy.values(), *free]:
            worker.end()


def _died(key: str, code: int | None) -> str:
    how = f"signal {-code}" if code is not None and code < 0 else f"code {code}"
    return f"case {key}: {TRIES} processes that ran it died, the last with {how}"


def _serve(pipe: Connection, function: Callable[[Any, Any], Any], shared: Any, parent: int) -> None:
    """What a worker does until its parent hangs up or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's; it ends the workers
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        answer: tuple[bool, Any]
        try:
            answer = True, function(shared, case)
        except Exception as error:
            answer = False, _sendable(error)
        try:
            pipe.send(answer)
        except BrokenPipeError:
            return


def _end_with(parent: int) -> None:
    """A worker in the middle of a case ends with the command, and its simulation with it."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def _sendable(error: Exception) -> Exception:
    """The error, or one that says the same where it cannot be pickled."""
    error.add_note(traceback.format_exc())
    try:
        pickle.dumps(copy(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error

"""Cases on the workers of a dask.distributed scheduler; `cli.workers` says how it is used."""

from __future__ import annotations

import hashlib
import logging
import queue
import threading
import uuid
import warnings
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError as FutureCancelledError
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from cli.errors import ToolError, UserError
from cli.progress import stage

ROOT = Path(__file__).resolve().parent.parent
CONNECT_SECONDS = 10
OTHER_SOURCES = "other sources than this command: bring both to one commit"
R = TypeVar("R")

_one = threading.Lock()  # a simulation changes the environment of its process


def results(
    function: Callable[[Any, Any], R], shared: Any, cases: Mapping[str, Any], address: str
) -> Iterator[tuple[str, R]]:
    """Key and result of every case as they come; errors as for `cli.workers.each`."""
    from distributed import KilledWorker, as_completed

    run = uuid.uuid4().hex  # keys are the scheduler's: another command may have the same cases
    with _connected(address) as client:
        _check_workers(client, address)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")
            # Submitted, not scattered: the scheduler can make it again when its holders have died.
            common = client.submit(_same, shared, key=f"{run}-shared")
            futures = {
                client.submit(on_worker, sources(), function, common, case, key=f"{run}-{key}"): key
                for key, case in cases.items()
            }
        try:
            for future in as_completed(list(futures), loop=client.loop):
                yield futures[future], future.result()
                future.release()
        except KilledWorker as error:
            key = str(error.task).removeprefix(f"{run}-")
            raise ToolError(
                f"case {key}: the workers that had it died, one after another"
            ) from None
        except (CancelledError, FutureCancelledError, OSError) as error:
            if client.status == "running" and isinstance(error, OSError):
                raise
            raise ToolError(f"the scheduler at {address} has gone") from None
        finally:
            if client.status == "running":
                client.cancel(list(futures))


def _check_workers(client: Any, address: str) -> None:
    """Wait for a worker, and refuse those that do not run this project: a case would end them."""

    def digest() -> str:  # local, so that it is sent whole and not by its name
        found: str = import_module("cli.cluster").sources()
        return found

    if not client.scheduler_info(n_workers=-1)["workers"]:
        stage(f"{address} has no worker yet: waiting for one")
        client.wait_for_workers(1)
    for worker, found in client.run(digest, on_error="return").items():
        if isinstance(found, ModuleNotFoundError):
            raise ToolError(
                f"the worker {worker} has no module {found.name}: start it in a clone of the "
                "project, with the Python of its .venv"
            )
        if isinstance(found, str) and found != sources():
            raise ToolError(f"the worker {worker} has {OTHER_SOURCES}")


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """A client of the scheduler."""
    from distributed import Client

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    stage(f"connecting to {address}")
    answer: queue.Queue[Any] = queue.Queue()

    def connect() -> None:
        try:
            answer.put(Client(address, timeout=CONNECT_SECONDS, set_as_default=False))
        except Exception as error:
            answer.put(error)

    # Apart, since a server that accepts and says nothing holds the client for ever.
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
    try:
        yield client
    finally:
        client.close(timeout=CONNECT_SECONDS)


def _same(shared: Any) -> Any:
    return shared


@cache
def sources() -> str:
    """Hash of the project's own files, as they lie on this machine."""
    digest = hashlib.sha256()
    for package in sorted(ROOT.glob("*/__init__.py")):
        for path in sorted(package.parent.rglob("*")):
            if path.suffix in {".py", ".cpp", ".h"}:
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def on_worker(digest: str, function: Callable[[Any, Any], R], shared: Any, case: Any) -> R:
    """`function(shared, case)`, one at a time in a process.

    Raises
    ------
    ToolError
        The sources here do not have the digest of the command's.
    """
    if sources() != digest:
        raise ToolError(f"a worker has {OTHER_SOURCES}")
    with _one:
        return function(shared, case)

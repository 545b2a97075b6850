"""Files that appear whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

STANDARD_OUTPUT = "-"

_alone: list[TextIO] = []


@contextmanager
def locked(path: str | Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock file `path` (made if missing) against other processes, or share it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary name beside `path`, for a file or a folder; renamed when the block ends well.

    A folder that stands at `path` is replaced by a folder, but not by a file; a link keeps pointing
    where it does. A device or a pipe (/dev/stdout) cannot be replaced: it is yielded itself.
    """
    path = Path(path)
    if path.parts[:2] == ("/", "dev") or path.is_fifo():
        yield path
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        if path.is_dir():
            if not temporary.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            old = path.with_name(f".{path.name}.{os.getpid()}.old")
            path.rename(old)
            temporary.rename(path)
            shutil.rmtree(old)
        else:
            temporary.replace(path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


def write(path: str | Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8; folders are made. An OSError names the file.

    A pipe that nobody reads is an error, too, and not waited for.
    """
    with replacing(path) as temporary:
        try:
            with open(temporary, "wb", opener=_at_once) as file:
                file.write(content.encode() if isinstance(content, str) else content)
        except OSError as error:
            error.filename = str(path)
            raise


def _at_once(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    os.set_blocking(descriptor, True)
    return descriptor


def write_if_changed(path: str | Path, content: str | bytes) -> bool:
    """Write a file unless it holds that already; whether it was written.

    An untouched file keeps its time, so that what is built from it need not be built again.
    """
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and path.read_bytes() == data:
        return False
    write(path, data)
    return True


def write_json(path: str | Path, value: Any) -> None:
    """Write figures as JSON, to standard output for "-"; what JSON has no number for is an error.

    Standard output then holds nothing else: see `cli.options.Parser`.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if str(path) == STANDARD_OUTPUT:
        (_alone[-1] if _alone else sys.stdout).write(text)
    else:
        write(path, text)


@contextmanager
def streams() -> Iterator[None]:
    """Within it `json_alone` may move what is printed; at its end all is as before."""
    output, count = sys.stdout, len(_alone)
    try:
        yield
    finally:
        sys.stdout = output
        del _alone[count:]


def json_alone() -> None:
    """From here to the end of `streams` what is printed goes to stderr, and JSON to the output."""
    _alone.append(sys.stdout)
    sys.stdout = sys.stderr

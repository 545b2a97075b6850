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
figures: TextIO | None = None
"""Standard output, where `--json -` has moved all else to stderr."""


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

    A folder replaces a folder, but a file does not; a link keeps pointing where it does. A device
    or a pipe (/dev/stdout) cannot be replaced: it is yielded itself.
    """
    path = Path(path)
    if path.parts[:2] == ("/", "dev") or path.is_fifo():
        yield path
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    old = path.with_name(f"{temporary.name}.old")
    try:
        yield temporary
        if path.is_dir():
            if not temporary.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            path.rename(old)
        temporary.replace(path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


def write(path: str | Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8; folders are made. An OSError names the file."""
    with replacing(path) as temporary:
        try:
            temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:
            error.filename = str(path)
            raise


def write_if_changed(path: str | Path, content: str | bytes) -> bool:
    """Write a file unless it holds that already, so that its time stays; whether it was written."""
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and path.read_bytes() == data:
        return False
    write(path, data)
    return True


def write_json(path: str | Path, value: Any) -> None:
    """Write figures as JSON, to standard output for "-"; NaN and infinity are an error."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if str(path) == STANDARD_OUTPUT:
        (figures or sys.stdout).write(text)
    else:
        write(path, text)

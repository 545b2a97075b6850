"""Shared by the set-up steps: folders, messages, stamps and one lock."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.command import ToolError
from cli.machine import GENERATED, VARIABLE

TOOLS = GENERATED / "tools"


class SetupError(ToolError):
    """A step that cannot be done; the message says what the user has to do."""


def say(message: str) -> None:
    """Print one line about what the set-up does."""
    print(f"[set-up] {message}", flush=True)


def digest(*parts: str) -> str:
    """Content hash of `parts`, written into a stamp when a step is done."""
    text = "\0".join(parts)
    return hashlib.sha256(text.encode()).hexdigest()


def is_stamped(stamp: Path, key: str) -> bool:
    """Whether the step behind `stamp` was done with this very content."""
    try:
        return stamp.read_text() == key
    except FileNotFoundError:
        return False


def write_stamp(stamp: Path, key: str) -> None:
    """Record that a step is done; whole or not at all."""
    partial = stamp.with_name(f"{stamp.name}.{os.getpid()}.partial")
    partial.write_text(key)
    partial.replace(stamp)


@contextmanager
def only_one() -> Iterator[None]:
    """Let a second set-up wait for the first one; the lock goes when the process ends."""
    TOOLS.mkdir(parents=True, exist_ok=True)
    if os.statvfs(TOOLS).f_flag & os.ST_NOEXEC:
        raise SetupError(
            f"{TOOLS} is on a file system mounted noexec, where no simulation can run: "
            f"{VARIABLE}=/another/folder names another place for what is generated"
        )
    with (TOOLS / "setup.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is running: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield

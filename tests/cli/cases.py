"""What workers are given in tests: functions that another process can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def square(shared: int, case: int) -> int:
    """Later cases end first."""
    time.sleep(0.05 * (case % 3 == 0))
    return shared + case * case


def slow(shared: None, case: int) -> int:
    time.sleep(0.2)
    return case


def deadly(folder: Path, case: int) -> int:
    """The first worker that takes case 3 is killed in it, case 7 kills every one."""
    first = not any(folder.glob(f"began-{case}-*"))
    (folder / f"began-{case}-{os.getpid()}").touch()
    if case == 7 or (case == 3 and first):
        os.kill(os.getpid(), signal.SIGKILL)
    return case


def failing(shared: None, case: int) -> int:
    if case == 2:
        raise ValueError(f"case {case} is bad")
    return case


def here(shared: None, case: int) -> int:
    return os.getpid()


def waiting(folder: Path, case: int) -> int:
    (folder / f"pid-{os.getpid()}").touch()
    time.sleep(60)
    return case

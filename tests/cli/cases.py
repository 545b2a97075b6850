"""What workers are given in tests: functions that another process can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def square(shared: int, case: int) -> int:
    """Later cases end first; case 7 kills its process."""
    if case == 2 and not shared:
        raise ValueError(f"case {case} is bad")
    if case == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05 * (case % 3 == 0))
    return shared + case * case


def waiting(folder: Path, case: int) -> int:
    (folder / f"pid-{os.getpid()}").touch()
    time.sleep(60)
    return case

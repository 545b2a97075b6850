"""Verilator and Icarus: which there are, what they say of themselves, and where they are found."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.errors import ToolError, UserError
from cli.machine import ROOT, clean

from cocotb_tools.runner import Runner, get_runner

from sim import verilator

#: Names of the simulators, the fastest to build first.
SIMULATORS = ("icarus", "verilator")

TIMESCALE = ("1ns", "1ps")


class SimulatorError(ToolError):
    """The simulator is missing, or it refused the design; the message says what to do."""


def check(simulator: str) -> None:
    """Refuse an unknown simulator (UserError), or one that is not installed (SimulatorError)."""
    if simulator not in SIMULATORS:
        raise UserError(f"no simulator is called {simulator!r}: choose {' or '.join(SIMULATORS)}")
    found = verilator.executable() if simulator == "verilator" else shutil.which("iverilog")
    if found is None:
        raise SimulatorError(f"{simulator} is not installed: run `make setup` first")


def version(simulator: str) -> str:
    """First line of what the simulator says of itself."""
    check(simulator)
    of_verilator = [str(verilator.executable()), "--version"]
    command = of_verilator if simulator == "verilator" else ["iverilog", "-V"]
    answer = subprocess.run(command, capture_output=True, text=True)
    return answer.stdout.partition("\n")[0].strip()


@contextmanager
def clean_environment(*importable: Path) -> Iterator[None]:
    """The environment of simulators: our tools and our Python first on PATH, nothing FOREIGN."""
    before, path = dict(os.environ), list(sys.path)
    found = verilator.executable()
    clean(os.environ)
    # Verilator's makefile runs `python3`, which gets this Python's modules from cocotb.
    first = [str(found.parent)] if found is not None else []
    first += [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    os.environ["PATH"] = os.pathsep.join(first)
    if shutil.which("ccache") is not None:
        os.environ["OBJCACHE"] = "ccache"
    sys.path[:0] = [str(folder) for folder in (*importable, ROOT)]
    try:
        yield
    finally:
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(before)


def runner(simulator: str) -> Runner:
    """cocotb's runner, silent: what it would say is in the log file and in our exceptions."""
    found = get_runner(simulator)
    found.log.disabled = True
    return found


def tail(log: Path) -> str:
    """The end of a log; empty when there is none."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-60:]) if log.exists() else ""

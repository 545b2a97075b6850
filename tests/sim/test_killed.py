"""A simulation ends with the command that started it, even when that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = str(ROOT / "build" / "sim" / "programs")

pytestmark = pytest.mark.verilator

HARNESS = """
from golden.random import random_model
from rtl.compile.program import compile_model, embedding_table
from sim.harness import fast
from tests.sim.test_recovery import CONFIG, TINY
model = random_model(TINY, 4)
program, table = compile_model(model, CONFIG), embedding_table(model, CONFIG.lanes)
fast.simulate(CONFIG, [fast.Job(program, table, [1] * 16)] * 20_000, processes=2)
"""
COMMANDS = {
    "harness": (["-c", HARNESS], 2),
    "fuzz": (["-m", "sim.fuzz", "--cases", "100000", "--lanes", "4", "--jobs", "1"], 1),
}


def below(parent: int) -> set[int]:
    """The processes that `parent` has started, and theirs."""
    found, last = {parent}, 0
    while len(found) > last:
        last = len(found)
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) in found:
                found.add(int(path.parent.name))
    return found - {parent}


def simulations(pids: set[int]) -> set[int]:
    """Those of the processes that run a program of ours and are not yet dead."""
    found = set()
    for pid in pids:
        try:
            if Path(f"/proc/{pid}/exe").resolve(strict=True).is_relative_to(PROGRAMS):
                found.add(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_leaves_no_simulation(name: str) -> None:
    arguments, count = COMMANDS[name]
    command = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL)
    running: set[int] = set()
    try:
        while len(running) < count:
            assert command.poll() is None, "the command ended before it could be killed"
            time.sleep(0.02)
            running = simulations(below(command.pid))
    finally:
        command.send_signal(signal.SIGKILL)
        command.wait()
    deadline = time.monotonic() + 2
    while simulations(running):
        assert time.monotonic() < deadline, f"{running} go on"
        time.sleep(0.05)

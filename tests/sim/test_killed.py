"""A simulation ends with the command that started it, even when that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sim.simulators import SimulatorError
from verify.fuzz.play import chunk, program
from verify.fuzz.subject import config

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = str(ROOT / "build" / "sim" / "programs")

HARNESS = """
from sim.machine import volume
from tests.sim.test_fast import CONFIG, PLAIN, Loaded
volume.simulate(CONFIG, [Loaded(PLAIN, 4).job(16)] * 20_000, processes=2)
"""


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


def test_a_killed_command_leaves_no_simulation() -> None:
    command = subprocess.Popen([sys.executable, "-c", HARNESS], cwd=ROOT)
    running: set[int] = set()
    try:
        while len(running) < 2:
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


@pytest.mark.slow
def test_a_fuzzer_that_another_process_started_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    built = program(config(4))
    monkeypatch.setattr("os.getpid", lambda: 1)
    with pytest.raises(SimulatorError, match="the simulation ended with code 3 in case"):
        chunk(built, config(4), 1, list(range(200)))

"""The front door: every command by a name, in a journey; it runs them as `python -m` does."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from cli import journey
from cli.machine import ROOT

import pytest

from tests.cli.test_commands import COMMANDS


def run(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """The front door, from a folder."""
    return subprocess.run(
        [sys.executable, "-m", "bert2rtl", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )


def test_every_command_has_one_name() -> None:
    named = [command.module for command in journey.COMMANDS.values()]
    assert sorted(named) == sorted(set(COMMANDS) - {"setup"})
    listed = [command for part in journey.JOURNEY.values() for command in part]
    assert len({command.name for command in listed}) == len(listed)


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_the_help_shows_the_journey_in_its_order(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert lines == list(journey.COMMANDS)
    order = ["inspect", "calibrate", "evaluate", "simulate", "generate", "bench", "compile"]
    assert sorted(order, key=lines.index) == order


def test_the_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    command = [sys.executable, "-m", "quant.calibrate", "--version"]
    assert done.stdout == subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


@pytest.mark.parametrize("seed", range(3))
def test_an_unknown_command_is_one_line(seed: int) -> None:
    name = "".join(random.Random(seed).choices("bcdfgh-", k=9)).lstrip("-")
    done = run(name, "--help")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: no command is called {name!r}: bert2rtl --help shows them all\n"
    )


def test_a_slip_is_answered_with_the_command() -> None:
    assert "did you mean calibrate? " in run("calibrat").stderr


@pytest.mark.slow
def test_a_command_calls_itself_and_others_as_it_was_called(tmp_path: Path) -> None:
    help_ = run("calibrate", "--help", folder=tmp_path).stdout
    assert help_.startswith("usage: bert2rtl calibrate ")
    assert "\n  bert2rtl calibrate --samples 256" in help_
    assert "python -m" not in help_
    done = run("cycles", "--quantized", str(tmp_path), folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "`bert2rtl calibrate --model CHECKPOINT" in done.stderr


@pytest.mark.slow
def test_it_runs_from_any_folder_and_writes_below_it(tmp_path: Path) -> None:
    """The shipped checkpoint is found beside the package."""
    done = run("inspect", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert str(ROOT / "models" / "bert-tiny-imdb") in done.stdout
    done = run("generate", "reciprocal", "--lanes", "4", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    written = {path.name for path in (tmp_path / "build" / "rtl").iterdir()}
    assert {"reciprocal.v", "reciprocal.json"} <= written


PACKAGES = sorted(
    ".".join(path.parent.relative_to(ROOT).parts)
    for path in {*ROOT.glob("*/__main__.py"), *ROOT.glob("*/*/__main__.py")}
    if "is a package" in path.read_text() or "no_command" in path.read_text()
)


def test_every_package_with_commands_answers() -> None:
    modules = {command.module for command in journey.COMMANDS.values()}
    above = {module.rpartition(".")[0] for module in modules} - modules - {""}
    assert above <= set(PACKAGES)
    tops = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"setup", "bert2rtl"}
    assert tops - modules <= set(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_which_commands_it_has(package: str) -> None:
    done = subprocess.run([sys.executable, "-m", package], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {package} is a package, not a command: ")
    assert done.stderr.count("\n") == 1
    for command in journey.COMMANDS.values():
        words = done.stderr.replace(",", " ").split()
        assert (command.module in words) == command.module.startswith(f"{package}.")

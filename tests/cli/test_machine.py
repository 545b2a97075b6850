"""What a user's machine and environment may not change, and where generated files go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cli import command, machine
from cli.machine import GENERATED, ROOT, VARIABLE

import pytest


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python with these words and variables."""
    plain = {"cwd": ROOT, "env": os.environ | environment, "timeout": 100}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, **plain)


@pytest.mark.parametrize("sign", [*"\n $%:=", "é", "\udcff"])
def test_a_path_that_make_does_not_take_is_refused(sign, monkeypatch):
    monkeypatch.setattr(machine, "GENERATED", Path("/home/some.one/b-2_c+d@e~1/f"))
    machine.check_machine()
    for name in ("ROOT", "GENERATED"):
        with monkeypatch.context() as patch:
            patch.setattr(machine, name, Path(f"/a/b{sign}c"))
            with pytest.raises(ValueError, match=r"^the path of .* which make and Verilator") as no:
                machine.check_machine()
        assert f"holds {sign!r}, which" in str(no.value)


def test_python_without_checks_is_refused():
    done = run("-m", "rtl.registers", PYTHONOPTIMIZE="1")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("error: Python leaves out")


def test_generated_files_lie_where_the_variable_says():
    shown = "from cli import machine; print(machine.BUILD, machine.GENERATED)"
    said = run("-c", shown, BERT2RTL_BUILD="some/place").stdout.split()
    assert said == [f"{ROOT}/some/place"] * 2


@pytest.mark.parametrize("named", [str(GENERATED / "sim" / "x"), "build/x", "/elsewhere/x", None])
def test_a_generated_file_that_cannot_be_written_says_how_to_move(named, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)

    def main():
        raise PermissionError(13, "Permission denied", named)

    assert command.run_command(main) == 2
    ours = named not in (None, "/elsewhere/x") and VARIABLE not in os.environ
    assert (f"{VARIABLE}=/another/folder" in capsys.readouterr().err) == ours


@pytest.mark.parametrize("home", ["", "missing"])
def test_child_processes_get_a_home_that_can_be_written(home, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / home))
    machine.find_places()
    assert os.environ["HOME"] == str(GENERATED / "home" if home else tmp_path)


def test_importing_a_command_changes_nothing():
    """In a program of the user's."""
    script = (
        "import os, sys; names = 'HOME', 'OPT', 'BERT2RTL_CASE'\n"
        "before = [os.environ[name] for name in names]; import quant.calibrate, sim.run\n"
        "assert before == [os.environ[name] for name in names]\n"
        "assert sys.excepthook.__module__ != 'cli.command'"
    )
    done = run("-c", script, HOME="/nonexistent", OPT="-O0", BERT2RTL_CASE="7")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_would_change_a_tool_is_removed_and_nothing_else():
    stays = ["PATH", "HOME", "CPATH", "CASE", "BERT2RTL_BUILD", "VM_NAME", "OPTIONS", "WAVES_DIR"]
    goes = ["PYTHONPATH", "COCOTB_RANDOM_SEED", "WAVES", "MAKEFLAGS", "OPT_FAST", "BERT2RTL_CASE"]
    environment = dict.fromkeys(stays + goes, "x")
    machine.clean(environment)
    assert list(environment) == stays

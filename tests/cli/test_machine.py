"""What a user's machine and environment may not change, and where generated files go."""

from __future__ import annotations

import os
import random
import shlex
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


@pytest.mark.parametrize(
    "sign", [*"\t\n !\"#$%&'()*,:;<=>?[\\]^`{|}", "é", "中", "\u00a0", "\udcff"]
)
def test_a_path_that_make_does_not_take_is_refused(sign, monkeypatch):
    monkeypatch.setattr(machine, "GENERATED", Path("/home/some.one/b-2_c+d@e~1/f"))
    machine.check_machine()
    for name in ("ROOT", "GENERATED"):
        with monkeypatch.context() as patch:
            patch.setattr(machine, name, Path(f"/a/b{sign}c"))
            with pytest.raises(ValueError, match=r"^the path of .* which make and Verilator") as no:
                machine.check_machine()
        assert f"holds {sign!r}, which" in str(no.value)


def test_a_machine_that_would_end_a_command_is_refused_first(tmp_path):
    place = {VARIABLE: f"{tmp_path}/a b"}
    optimised = {"PYTHONOPTIMIZE": "1"}
    for environment, said in (
        (place, f"the path of {VARIABLE}, "),
        (optimised, "Python leaves out"),
    ):
        done = run("-m", "rtl.registers", **environment)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert done.stderr.startswith(f"error: {said}")
    assert list(tmp_path.iterdir()) == []


def test_generated_files_lie_where_the_variable_says(tmp_path):
    place = str(tmp_path / "place")
    done = run("-m", "rtl.generate", "reciprocal", "--lanes", "4", BERT2RTL_BUILD=place)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "place" / "rtl" / "reciprocal.v").is_file()
    shown = "from cli import machine; print(machine.BUILD, machine.GENERATED)"
    assert (
        run("-c", shown, BERT2RTL_BUILD="some/place").stdout.split() == [f"{ROOT}/some/place"] * 2
    )


@pytest.mark.parametrize("named", [str(GENERATED / "sim" / "x"), "build/x", "/elsewhere/x", None])
def test_a_generated_file_that_cannot_be_written_says_how_to_move(named, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)

    def main():
        raise PermissionError(13, "Permission denied", named)

    assert command.run_command(main) == 2
    ours = named not in (None, "/elsewhere/x") and VARIABLE not in os.environ
    assert (f"{VARIABLE}=/another/folder" in capsys.readouterr().err) == ours


@pytest.mark.parametrize(
    ("home", "cache", "temporary"),
    [("good", "", True), ("missing", "", True), ("closed", "", True), ("good", "closed", False)],
)
def test_child_processes_get_folders_that_can_be_written(
    home, cache, temporary, monkeypatch, tmp_path
):
    """In place of those that cannot; what can be written stays."""
    (tmp_path / "good").mkdir()
    (tmp_path / "closed").mkdir()
    real = os.access
    refuse = lambda path, mode: "closed" not in str(path) and real(path, mode)  # noqa: E731
    monkeypatch.setattr(machine.os, "access", refuse)
    monkeypatch.setenv("HOME", str(tmp_path / home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache / "x") if cache else "")
    monkeypatch.setenv("TMPDIR", "")
    if not temporary:
        monkeypatch.setattr(machine.tempfile, "gettempdir", Path("/nowhere/at/all").stat)
    machine.find_places()
    kept = str(tmp_path / home) if home == "good" else str(GENERATED / "home")
    assert os.environ["HOME"] == kept
    assert os.environ["XDG_CACHE_HOME"] == (str(GENERATED / "home" / ".cache") if cache else "")
    assert os.environ["TMPDIR"] == ("" if temporary else str(GENERATED))


def test_importing_a_command_changes_nothing():
    """In a program of the user's, which may have closed its input."""
    script = (
        "import os, sys; state = lambda: (os.environ['HOME'], os.environ['OPT'], "
        "os.environ['BERT2RTL_CASE'], os.listdir('/proc/self/fd')); before = state()\n"
        "import quant.calibrate, sim.run\n"
        "assert (before, sys.excepthook.__module__ == 'cli.command') == (state(), False)"
    )
    words = shlex.join([sys.executable, "-c", script])
    strange = {"HOME": "/nonexistent", "OPT": "-O0", "BERT2RTL_CASE": "7"}
    done = subprocess.run(
        ["bash", "-c", f"{words} <&-"], cwd=ROOT, env=os.environ | strange, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_place_for_a_file(closed, tmp_path):
    """The next file that is opened has the number of a stream that is not there."""
    program = (
        "import os, sys; from cli.machine import open_streams; open_streams(); "
        "file = open(sys.argv[1], 'w'); sys.stdout.flush(), print('printed'), "
        "os.write(1, b'said'), file.write('kept')"
    )
    file = tmp_path / "file"
    words = shlex.join([sys.executable, "-c", program, str(file)])
    done = subprocess.run(["bash", "-c", f"{words} {closed}"], cwd=ROOT, capture_output=True)
    assert (done.returncode, file.read_text()) == (0, "kept")


STAYS = """
PATH HOME LD_LIBRARY_PATH CPATH https_proxy TMPDIR USER LANG CCACHE_DIR XDG_CACHE_HOME CASE
BERT2RTL_BUILD OMP_NUM_THREADS HF_HOME GUIX_LOCPATH GUILE_LOAD_PATH VK_ICD_FILENAMES VM_NAME
OPTIX_HOME OPTIONS USER_ID CFG_HOME MAKEINFO WAVES_DIR PYTHON_KEYRING_BACKEND SYSTEMC_HOME
"""
GOES = """
PYTHONPATH PYTHONHOME PYTHONSAFEPATH PYTHONOPTIMIZE PYTHONSTARTUP COCOTB_TEST_FILTER GUI
COCOTB_RANDOM_SEED GPI_EXTRA PYGPI_USERS LIBPYTHON_LOC WAVES PYTEST_CURRENT_TEST MAKEFLAGS
PYTEST_ADDOPTS TOPLEVEL_LANG VERILATOR_ROOT VERILATOR_BIN IVERILOG_DUMPER VVP_EXTRA_ARGS
YOWASP_MOUNT MAKEFILES MAKELEVEL MFLAGS GNUMAKEFLAGS OBJCACHE OPT_FAST CFLAGS CXXFLAGS
CPPFLAGS LDFLAGS LDLIBS VM_PARALLEL_BUILDS BERT2RTL_CASE BERT2RTL_REPORT BERT2RTL_MUTANT
"""


@pytest.mark.parametrize("seed", range(3))
def test_what_would_change_a_tool_is_removed_and_nothing_else(seed):
    draw, stays, goes = random.Random(seed), STAYS.split(), GOES.split()
    environment = dict.fromkeys(stays + draw.sample(goes, draw.randint(1, len(goes))), "x")
    machine.clean(environment)
    assert list(environment) == stays

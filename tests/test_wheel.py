"""`pip install bert2rtl` elsewhere: one package beside others, and commands in any folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from cli.machine import ROOT

import pytest

UV = Path(sys.executable).with_name("uv")


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, env=dict(os.environ), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_foreign_environment_gets_one_package_whose_commands_work(tmp_path: Path) -> None:
    run(UV, "build", "--wheel", "-q", "-o", tmp_path / "dist", ROOT, cwd=tmp_path)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"bert2rtl"}
    tracked = run("git", "ls-files", "rtl", "sim", "tb", "quant", "models", cwd=ROOT).splitlines()
    assert {f"bert2rtl/{name}" for name in tracked} <= set(names)

    run(UV, "venv", "-q", "-p", sys.executable, tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    run(UV, "pip", "install", "-q", "-p", python, f"{wheel}[quant,rtl]", cwd=tmp_path)
    door, empty = python.with_name("bert2rtl"), tmp_path / "empty"
    empty.mkdir()
    assert "bert-tiny-imdb" in run(door, "inspect", cwd=empty)
    run(door, "calibrate", "--samples", "16", "--out", "mine", cwd=empty)
    assert (empty / "mine" / "quantized.json").is_file()
    run(door, "generate", "reciprocal", "--lanes", "4", cwd=empty)
    assert (empty / "build" / "rtl" / "reciprocal.v").is_file()
    shown = run(python, "-m", "bert2rtl", "calibrate", "-h", cwd=empty)
    assert shown.startswith("usage: bert2rtl calibrate ")
    site = next((tmp_path / "venv" / "lib").glob("python3*/site-packages"))
    ours = {"cli", "golden", "quant", "rtl", "tb", "sim", "verify", "boards", "train", "setup"}
    assert ours & {path.name for path in site.iterdir()} == set()

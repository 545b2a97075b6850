"""What `make sim REVIEW=...` hands on: the text as it was given, nothing of it executed."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).resolve().parents[2] / "Makefile"
# Stands where the virtual environment's Python does, and writes down what it is asked to run.
STUB = f"""#!{sys.executable}
import json, os, sys
with open("calls.jsonb", "ab") as file:
    file.write(json.dumps([os.fsencode(text).hex() for text in sys.argv[1:]]).encode() + b"\\n")
"""
FRAGMENTS = [
    *("$(shell touch executed)", "$$(touch executed)", "$(touch executed)", "`touch executed`"),
    *("${shell touch executed}", "$(eval X:=$(shell touch executed))", "&& touch executed"),
    *('"; touch executed; "', "'; touch executed; '", "$5", "$$", "$", "$x", "#", "\\", "%", "~"),
    *('"', "'", "*", " -n ", "--help", "!", ":=", "\\\n", "\n\ttouch executed\n", "great", " "),
    *("é", "\udcff", "\U0001f3ac"),
]


@pytest.fixture
def folder(tmp_path):
    stub = tmp_path / ".venv" / "bin" / "python"
    stub.parent.mkdir(parents=True)
    stub.write_text(STUB)
    stub.chmod(0o755)
    return tmp_path


def make(folder: Path, *arguments: str, **environment: str) -> list[list[str]]:
    """The commands that make has run, by their arguments, the set-up left out."""
    log = folder / "calls.jsonb"
    log.unlink(missing_ok=True)
    python = f"PYTHON={folder}/.venv/bin/python"
    command = ["make", "-f", str(MAKEFILE), "--no-print-directory", python, *arguments]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, cwd=folder, env=plain | environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    calls = [
        [os.fsdecode(bytes.fromhex(text)) for text in json.loads(line)]
        for line in log.read_bytes().splitlines()
    ]
    return [call for call in calls if call[:2] != ["-m", "setup"]]


@pytest.mark.parametrize("seed", range(3))
def test_a_review_arrives_as_it_is(seed, folder):
    draw = random.Random(seed)
    # make itself drops white space in front of a value on its command line.
    review = "".join(draw.choices(FRAGMENTS, k=draw.randint(3, 9))).lstrip()
    for arguments, variables in (([f"REVIEW={review}"], {}), ([], {"REVIEW": review})):
        (call,) = make(folder, "sim", *arguments, **variables)
        assert call[:2] == ["-m", "sim.run"]
        assert [text for text in call if text.startswith("--review")] == [f"--review={review}"]
    assert sorted(entry.name for entry in folder.iterdir()) == [".venv", "calls.jsonb"]


def test_clean_keeps_models_and_says_so(tmp_path):
    for kept in ("mine/quantized.json", "trained/a/model.safetensors"):
        (tmp_path / "build" / kept).parent.mkdir(parents=True)
        (tmp_path / "build" / kept).touch()
    (tmp_path / "build" / "rtl").mkdir()
    for gone in ("rtl/top.v", "model.bin", ".lock"):
        (tmp_path / "build" / gone).touch()
    command = ["make", "-f", str(MAKEFILE), "--no-print-directory", "clean"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "build").iterdir()) == ["mine", "trained"]
    told = [f"kept: build/{name} holds a model; remove it yourself" for name in ("mine", "trained")]
    assert sorted(done.stdout.splitlines()) == told

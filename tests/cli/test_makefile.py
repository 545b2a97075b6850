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
    *("${shell touch executed}", "$(eval X:=$(shell touch executed))", "$(error no)", "$(REVIEW)"),
    *("; touch executed;", "&& touch executed", "| touch executed", "\n\ttouch executed\n"),
    *('"; touch executed; "', "'; touch executed; '", "$5", "$$", "$", "$x", "#", "\\", "%", "~"),
    *('"', "'", "*", " -n ", "--help", "!", "=", ":=", "\\\n", "great", " "),
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


def given(call: list[str]) -> list[str]:
    return [text.removeprefix("--review=") for text in call if text.startswith("--review")]


@pytest.mark.parametrize("seed", range(40))
def test_a_review_arrives_as_it_is(seed, folder):
    draw = random.Random(seed)
    # make itself drops white space in front of a value on its command line.
    review = "".join(draw.choices(FRAGMENTS, k=draw.randint(1, 6))).lstrip() or "$"
    if seed % 2:
        (call,) = make(folder, "sim", f"REVIEW={review}")
    else:
        (call,) = make(folder, "sim", REVIEW=review)
    assert call[:2] == ["-m", "sim.run"]
    assert given(call) == [review]
    assert sorted(entry.name for entry in folder.iterdir()) == [".venv", "calls.jsonb"]


def test_without_a_review_none_is_handed_on(folder):
    (call,) = make(folder, "sim")
    assert given(call) == []


@pytest.mark.parametrize("by", ["option", "environment"])
def test_an_empty_review_is_handed_on_to_be_refused(by, folder):
    (call,) = make(folder, "sim", "REVIEW=") if by == "option" else make(folder, "sim", REVIEW="")
    assert given(call) == [""]


def test_the_help_says_how_to_pass_quotes(folder):
    done = subprocess.run(["make", "-f", MAKEFILE, "help"], capture_output=True, text=True)
    assert """REVIEW='It'\\''s "good"'""" in done.stdout
    # The example means what it says.
    example = subprocess.run(
        ["sh", "-c", """printf %s 'It'\\''s "good"'"""], capture_output=True, text=True
    )
    assert example.stdout == 'It\'s "good"'


# Writes down its environment in place of its arguments.
TELLS = f"""#!{sys.executable} -I
import json, os
open("environment.json", "w").write(json.dumps(dict(os.environ)))
"""


@pytest.mark.parametrize(
    ("name", "value", "target"),
    [
        ("UNIT", "softmax", "sim"),
        ("LANES", "64", "sim"),
        ("SIM", "icarus", "sim"),
        ("WAVES", "1", "sim"),
        ("ARGS", "--help", "sim"),
        ("UNIT", "matmul", "synth"),
    ],
)
@pytest.mark.parametrize("flags", ["", "e"], ids=["", "environment first"])
def test_a_variable_of_the_environment_changes_nothing_and_is_told(
    name, value, target, flags, folder
):
    plain = make(folder, target)
    command = ["make", "-f", str(MAKEFILE), f"PYTHON={folder}/.venv/bin/python", target]
    kept = {key: text for key, text in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(
        command,
        cwd=folder,
        env=kept | {name: value, "MAKEFLAGS": flags},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = f": {name} of the environment is not used here: write it behind make, {name}=...\n"
    assert done.stderr.endswith(told)
    assert done.stderr.count("\n") == 1
    (call,) = plain
    ran = [json.loads(line) for line in (folder / "calls.jsonb").read_bytes().splitlines()][-1]
    assert [os.fsdecode(bytes.fromhex(text)) for text in ran] == call


def test_pythons_own_variables_reach_no_command(folder):
    (folder / ".venv" / "bin" / "python").write_text(TELLS)
    names = ("PYTHONSAFEPATH", "PYTHONPATH", "PYTHONHOME", "PYTHONOPTIMIZE", "PYTHONSTARTUP")
    subprocess.run(
        ["make", "-f", str(MAKEFILE), "sim"],
        cwd=folder,
        env=os.environ | dict.fromkeys(names, "/nothing") | {"PYTHONUNBUFFERED": "1"},
        check=True,
    )
    given = json.loads((folder / "environment.json").read_text())
    assert [name for name in names if name in given] == []
    assert given["PYTHONUNBUFFERED"] == "1"


def test_the_environments_own_python_sets_up_where_there_is_one(folder):
    (folder / "path").mkdir()
    other = folder / "path" / "python3"
    other.write_text("#!/bin/sh\necho wrong python >&2\nexit 1\n")
    other.chmod(0o755)
    command = ["make", "-f", str(MAKEFILE), "sim"]
    environment = os.environ | {"PATH": f"{other.parent}:/usr/bin:/bin"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert b'["2d6d", "7365747570"' in (folder / "calls.jsonb").read_bytes()  # -m setup
    (folder / ".venv" / "bin" / "python").unlink()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert "wrong python" in done.stderr


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

"""Every command of the project, found in the tree: how it helps, refuses and ends."""

import ast
import importlib
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from cli.options import PATHS, Parser

import pytest

from tests.ending import exit_code

ROOT = Path(__file__).resolve().parents[2]


def is_command(path: Path) -> bool:
    """Whether a module ends with `if __name__ == "__main__":`."""
    return any(
        isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
        for node in ast.parse(path.read_text()).body
    )


FILES = [
    path.relative_to(ROOT)
    for package in sorted(ROOT.glob("*/__init__.py"))
    for path in sorted(package.parent.rglob("*.py"))
    if not {"tests", "bert2rtl"} & set(path.relative_to(ROOT).parts) and is_command(path)
]
# By the name after `python -m`, and the module that it runs.
COMMANDS = {
    ".".join(path.with_suffix("").parts).removesuffix(".__main__"): ".".join(
        path.with_suffix("").parts
    )
    for path in FILES
}
# What has to be named on the command line; without it a command says so.
NEEDED = {
    "quant.classify": ["good"],
    "quant.export": ["c"],
    "quant.similarity": ["good", "bad"],
    "boards": ["--board", "terasic_deca"],
    "boards.host": ["good", "--board", "radiona_ulx3s"],
    "rtl.generate": ["softmax"],
    "sim.gates": ["activation"],
    "sim.synth": ["softmax"],
    "tb.generate": ["softmax"],
    "setup": ["quant"],
}


def test_the_commands_are_found():
    assert {"quant.calibrate", "rtl.compile", "setup", "sim.run", "train.finetune"} <= set(COMMANDS)
    readme = (ROOT / "README.md").read_text()
    named = {word for word in readme.split() if word in COMMANDS}
    assert {"quant.calibrate", "sim.cycles"} <= named


@pytest.fixture(params=sorted(COMMANDS))
def name(request):
    return request.param


def module(name: str) -> ModuleType:
    return importlib.import_module(COMMANDS[name])


def ends(name: str, *arguments: str) -> int:
    """The exit code of a command, run in this process."""
    return exit_code(module(name).main, list(arguments))


def options_of(name: str, capsys) -> dict[str, str]:
    """The options that --help names, with what stands for their value."""
    assert ends(name, "--help") == 0
    found = {}
    for line in capsys.readouterr().out.splitlines():
        words = line.strip().replace(",", "").split()
        for place, word in enumerate(words[:4]):
            if word.startswith("--") and line.startswith("  -"):
                after = words[place + 1] if place + 1 < len(words) else ""
                found[word] = after if after.isupper() or after.startswith("{") else ""
    return found


def test_help_has_examples_that_are_of_this_command(name, capsys):
    assert ends(name, "--help") == 0
    shown, error = capsys.readouterr()
    assert error == ""
    _, _, examples = shown.partition("examples:\n")
    # A line that is further in says what the example above it does.
    lines = [line.strip() for line in examples.splitlines() if not line.startswith("     ")]
    lines = [line for line in lines if line]
    assert lines, "no examples"
    for line in lines:
        assert line.startswith(("python -m ", "python3 -m ")), line
    assert any(f"-m {name}" in line for line in lines)
    known = options_of(name, capsys)
    for line in lines:
        words = shlex.split(line)
        if words[2] == name:
            assert {w for w in words if w.startswith("--")} <= set(known), line


def test_version(name, capsys):
    assert ends(name, "--version") == 0
    assert capsys.readouterr().out.startswith("bert2rtl ")


def test_an_option_that_does_not_exist(name, capsys):
    draw = random.Random(name)
    option = "--" + "".join(draw.choices("bcdfghjklm", k=12))
    assert ends(name, *NEEDED.get(name, []), option) == 2
    error = capsys.readouterr().err
    assert error == f"error: unrecognized arguments: {option}; --help shows what is allowed\n"


def test_a_number_that_is_none(name, capsys):
    numbers = [
        key for key, value in options_of(name, capsys).items() if value in {"N", "L", "SEED"}
    ]
    for option in numbers:
        for wrong in ("many", "-3", "1e3", ""):
            assert ends(name, *NEEDED.get(name, []), f"{option}={wrong}") == 2, (option, wrong)
            error = capsys.readouterr().err
            assert error.startswith("error: "), error
            assert error.count("\n") == 1
            assert option.strip("-").replace("-", "_") in error.replace("-", "_")


@pytest.mark.parametrize("kind", ["missing", "a folder", "no text"])
@pytest.mark.parametrize(
    ("command", "option"),
    [
        *((f"quant.{name}", "--model") for name in ("ablation", "calibrate", "evaluate", "report")),
        *((f"quant.{name}", "--model") for name in ("embed", "similarity")),
        *((f"quant.{name}", "--quantized") for name in ("classify", "embed", "evaluate", "report")),
        ("quant.similarity", "--quantized"),
        *((f"quant.{name}", "--data") for name in ("ablation", "calibrate")),
        *((name, "--quantized") for name in ("quant.export", "rtl.compile", "sim.cycles")),
    ],
)
def test_a_file_that_cannot_be_read(command, option, kind, tmp_path, capsys):
    place = tmp_path / "place.csv"
    if kind == "a folder":
        place.mkdir()
    elif kind == "no text":
        place.write_bytes(b"\xff\xfe\x00" * 50)
    assert ends(command, *NEEDED.get(command, []), option, str(place)) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert "place.csv" in error


def path_options(name: str, monkeypatch) -> list[tuple[str, str, str]]:
    """Option, destination and metavar of everything that a command's parser takes a path for."""
    with monkeypatch.context() as patch:
        patch.setattr(Parser, "parse_args", lambda self, *_: raising(Parsers(self)))
        with pytest.raises(Parsers) as caught:
            module(name).main([])
    found = []
    for action in caught.value.args[0]._actions:
        metavar = str(action.metavar)
        option = (action.option_strings or [""])[-1]  # none: an argument without a name
        if action.type is Path or any(word in metavar for word in ("FILE", "DIR", "PATH")):
            assert metavar in PATHS, f"{name} {action.option_strings}: {metavar}"
            found.append((option, action.dest, metavar))
    return found


class Parsers(BaseException):
    """Brings a parser out of a command."""


def raising(error: BaseException) -> None:
    raise error


def bad_paths(folder: Path, dest: str, metavar: str) -> dict[str, Path]:
    """What cannot be read or written for an option."""
    (folder / "full").mkdir()
    (folder / "full" / "kept").write_text("kept")
    (folder / "plain.csv").write_text("plain")
    (folder / "broken.csv").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe.csv")
    below = folder / "plain.csv" / "below.csv"
    if dest in ("out", "work", "json", "html", "svg", "image", "splits", "saif"):
        other = folder / "plain.csv" if metavar.startswith("DIR") else folder / "full"
        return {"of the other kind": other, "below a file": below}
    found = {
        "a broken link": folder / "broken.csv",
        "a pipe without a writer": folder / "pipe.csv",
        "a device": Path("/dev/full"),
        "below a file": below,
        "missing": folder / "missing.csv",
    }
    if metavar != "DIR|FILE":  # which takes both
        found["of the other kind"] = folder / ("plain.csv" if metavar == "DIR" else "full")
    return found


def test_every_path_that_cannot_be_used(name, tmp_path, monkeypatch, capsys):
    """Each is one line that names it, at once, and nothing is written."""
    for option, dest, metavar in path_options(name, monkeypatch):
        folder = tmp_path / dest
        folder.mkdir()
        bad = bad_paths(folder, dest, metavar)
        before = sorted(folder.rglob("*"))
        for kind, path in bad.items():
            arguments = [*NEEDED.get(name, []), *filter(None, [option]), str(path)]
            assert ends(name, *arguments) == 2, (option, kind)
            error = capsys.readouterr().err.splitlines()
            told = [line for line in error if line.startswith("error: ")]
            assert len(told) == 1, (option, kind, error)
            assert error[-1] == told[0], (option, kind, error)
            assert path.name in told[0], (option, kind, error)
            assert sorted(folder.rglob("*")) == before, (option, kind)
        assert (folder / "full" / "kept").read_text() == "kept"


def test_a_full_disk_is_one_line(capsys):
    assert ends("sim.cycles", "--json", "/dev/full") == 2
    shown = capsys.readouterr()
    assert shown.err.splitlines()[-1] == "error: /dev/full: No space left on device"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_a_reader_that_has_gone(name, arguments, monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        assert ends(name, *arguments) == 0


def test_without_its_packages_a_command_is_one_line(name):
    """-S leaves the installed packages out; the standard library alone sets up."""
    command = [sys.executable, "-S", "-m", name, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if name in ("setup", "train.bench"):
        assert (done.returncode, done.stderr) == (0, "")
        return
    assert done.returncode == 3
    assert done.stderr.startswith("error: the package ")
    assert "is not installed: run `make setup-" in done.stderr
    assert done.stderr.count("\n") == 1

"""Every command of the project, found in the tree: how it helps, refuses and ends."""

import ast
import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

from cli.machine import ROOT
from cli.options import PATHS, Parser
from cli.paths import WRITTEN

import pytest

from tests.ending import exit_code, refusal


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
    "boards": ["--board", "terasic_deca"],
    "boards.host": ["good", "--board", "radiona_ulx3s"],
    "rtl.generate": ["softmax"],
    "sim.gates": ["activation"],
    "sim.synth": ["softmax"],
    "tb.generate": ["softmax"],
    "setup": ["quant"],
}


@pytest.fixture(params=sorted(COMMANDS))
def name(request):
    return request.param


def main_of(name: str):
    return importlib.import_module(COMMANDS[name]).main


class Caught(BaseException):
    """Brings a parser out of a command."""


def parser_of(name: str, monkeypatch) -> Parser:
    def parse_args(parser: Parser, *_: object) -> None:
        raise Caught(parser)

    with monkeypatch.context() as patch:
        patch.setattr(Parser, "parse_args", parse_args)
        with pytest.raises(Caught) as caught:
            main_of(name)([])
    return caught.value.args[0]


def test_help_has_examples_that_are_of_this_command(name, monkeypatch, capsys):
    parser = parser_of(name, monkeypatch)
    _, _, examples = parser.format_help().partition("examples:\n")
    # A line that is further in says what the example above it does.
    lines = [
        shlex.split(line)
        for line in examples.splitlines()
        if line.startswith("  ") and line[2:3].strip()
    ]
    assert any(words[2] == name for words in lines)
    for words in lines:
        assert words[:2] in (["python", "-m"], ["python3", "-m"]), words
        if words[2] == name:
            assert {word for word in words if word.startswith("--")} <= set(
                parser._option_string_actions
            )
    assert exit_code(main_of(name), ["--version"]) == 0
    assert capsys.readouterr().out.startswith("bert2rtl ")


def test_a_wrong_option_or_number_is_one_line(name, monkeypatch, capsys):
    needed = NEEDED.get(name, [])
    error = refusal(main_of(name), [*needed, "--bcdfgh"], capsys)
    assert error == "error: unrecognized arguments: --bcdfgh; --help shows what is allowed\n"
    for action in parser_of(name, monkeypatch)._actions:
        if action.metavar in {"N", "L", "SEED"}:
            option = action.option_strings[-1]
            for wrong in ("many", "-3", "1e3", ""):
                error = refusal(main_of(name), [*needed, f"{option}={wrong}"], capsys)
                assert action.dest in error.replace("-", "_")


def bad_paths(folder: Path, dest: str, metavar: str) -> dict[str, Path]:
    """What cannot be read or written for an option."""
    (folder / "full").mkdir(parents=True)
    (folder / "full" / "kept").write_text("kept")
    (folder / "plain.csv").write_text("plain")
    (folder / "broken.csv").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe.csv")
    found = {"below a file": folder / "plain.csv" / "below.csv"}
    if "|FILE" not in metavar:
        found["of the other kind"] = folder / ("plain.csv" if metavar == "DIR" else "full")
    if dest not in WRITTEN:
        found |= {name: folder / f"{name}.csv" for name in ("broken", "pipe", "missing")}
        found["a device"] = Path("/dev/full")
    return found


def test_every_path_that_cannot_be_used(name, tmp_path, monkeypatch, capsys):
    """Each is one line that names it, at once, and nothing is written."""
    for action in parser_of(name, monkeypatch)._actions:
        metavar = str(action.metavar)
        if action.type is not Path and not {"FILE", "DIR", "PATH"} & set(metavar.split("|")):
            continue
        assert metavar in PATHS, f"{name} {action.option_strings}: {metavar}"
        folder = tmp_path / action.dest
        bad = bad_paths(folder, action.dest, metavar)
        before = sorted(folder.rglob("*"))
        for kind, path in bad.items():
            words = [*NEEDED.get(name, []), *action.option_strings[-1:], str(path)]
            assert exit_code(main_of(name), words) == 2, (words, kind)
            error = capsys.readouterr().err.splitlines()
            assert [line.startswith("error: ") for line in error] == [False] * (len(error) - 1) + [
                True
            ]
            assert path.name in error[-1], (words, kind, error)
            assert sorted(folder.rglob("*")) == before, (words, kind)


def test_a_full_disk_is_one_line(capsys):
    assert exit_code(main_of("sim.cycles"), ["--json", "/dev/full"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == "error: /dev/full: No space left on device"


@pytest.mark.parametrize("name", ["quant.calibrate", "rtl.compile", "sim.run", "sim.vectors"])
def test_a_default_output_is_refused_before_the_work(name, monkeypatch, capsys):
    monkeypatch.setattr("cli.paths.os.access", lambda path, mode: False)
    error = refusal(main_of(name), [], capsys)
    assert "cannot be written: no permission for " in error
    assert "BERT2RTL_BUILD=/another/folder" in error


@pytest.mark.parametrize("name", ["quant.calibrate", "sim.run", "boards", "setup"])
def test_without_its_packages_a_command_is_one_line(name):
    """-S leaves the installed packages out; the standard library alone sets up."""
    command = [sys.executable, "-S", "-m", name, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == ((0, 0) if name == "setup" else (3, 1))
    told = done.stderr.startswith("error: the package ")
    assert told == (name != "setup")
    assert told == ("is not installed: run `make setup-" in done.stderr)

"""Every command of the project, found in the tree: how it helps, refuses and ends."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

from cli.machine import ROOT
from cli.options import PATHS, Parser
from cli.paths import WRITTEN

import pytest

from tests.ending import exit_code, refusal

FILES = [
    path.relative_to(ROOT)
    for package in sorted(ROOT.glob("*/__init__.py"))
    for path in sorted(package.parent.rglob("*.py"))
    if package.parent.name not in ("tests", "bert2rtl")
    if '\nif __name__ == "__main__":\n' in path.read_text()
]
MODULES = [".".join(path.with_suffix("").parts) for path in FILES]
COMMANDS = {module.removesuffix(".__main__"): module for module in MODULES}
"""Their modules by the name after `python -m`."""
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


def test_help_has_examples_of_this_command(name, monkeypatch, capsys):
    assert exit_code(main_of(name), ["--help"]) == 0
    _, _, examples = capsys.readouterr().out.partition("examples:\n")
    words = [line.split() for line in examples.splitlines() if f"-m {name} " in f"{line} "]
    options = {word for line in words for word in line if word.startswith("--")}
    assert words
    assert options <= set(parser_of(name, monkeypatch)._option_string_actions)


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


def test_every_path_that_cannot_be_used(name, tmp_path, monkeypatch, capsys):
    """Each is one line that names it, at once, and nothing is written."""
    (tmp_path / "full").mkdir()
    (tmp_path / "plain.csv").write_text("plain")
    (tmp_path / "broken.csv").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.csv")
    before = sorted(tmp_path.rglob("*"))
    for action in parser_of(name, monkeypatch)._actions:
        metavar = str(action.metavar)
        if action.type is not Path and not {"FILE", "DIR", "PATH"} & set(metavar.split("|")):
            continue
        assert metavar in PATHS, f"{name} {action.option_strings}: {metavar}"
        bad = ["plain.csv/below.csv"]
        if "|FILE" not in metavar:
            bad.append("plain.csv" if metavar == "DIR" else "full")
        if action.dest not in WRITTEN:
            bad += ["broken.csv", "pipe.csv", "missing.csv"]
        for path in bad:
            words = [*NEEDED.get(name, []), *action.option_strings[-1:], str(tmp_path / path)]
            assert exit_code(main_of(name), words) == 2, words
            error = capsys.readouterr().err.splitlines()
            assert [line for line in error if line.startswith("error: ")] == error[-1:]
            assert Path(path).name in error[-1], (words, error)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_full_disk_is_one_line(capsys):
    """And a folder that takes no files at all."""
    error = refusal(main_of("rtl.registers"), ["-o", "/proc/x"], capsys)
    assert "/proc/x cannot be written: /proc takes no files: name another folder" in error
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

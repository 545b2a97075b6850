"""How a command ends, what its options refuse, and the front door."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from cli import journey, options
from cli.command import Exit, run_command
from cli.errors import Different, Interrupted, ToolError, UserError
from cli.files import write_json
from cli.machine import ROOT
from cli.options import Parser
from cli.words import counted

import pytest

from bert2rtl import __main__ as door
from rtl.interface.config import LANES, Config
from tests.cli.test_commands import COMMANDS


def raising(error: BaseException):
    def main() -> int:
        raise error

    return main


def missing(name: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UserError("layer.0.q is bad"), 2, "error: layer.0.q is bad\n"),
        (UserError("two\n  lines\n"), 2, "error: two lines\n"),
        (FileNotFoundError(2, "No such file", "x.csv"), 2, "error: x.csv: No such file\n"),
        (Different("logit 3: 5 is not 6"), 1, "error: logit 3: 5 is not 6\n"),
        (ToolError("no Verilator"), 3, "error: no Verilator\n"),
        (MemoryError(), 3, "error: not enough memory\n"),
        (KeyboardInterrupt(), 130, "interrupted: nothing was written\n"),
        (Interrupted("kept step 7"), 130, "kept step 7\n"),
        (missing("torch.nn"), 3, "error: the package torch.nn is not installed: run `make "),
    ],
)
def test_an_error_is_one_line_and_a_code(error, code, line, capsys):
    assert run_command(raising(error)) == code
    shown, said = capsys.readouterr()
    assert (shown, said[: len(line)], said.count("\n")) == ("", line, 1)


@pytest.mark.parametrize("mistake", [ValueError("x"), KeyError("x"), missing("quant.own.module")])
def test_a_mistake_of_the_program_keeps_its_traceback(mistake):
    with pytest.raises(type(mistake)):
        run_command(raising(mistake))


def test_what_the_terminal_cannot_show_is_escaped_and_ctrl_c_is_one_line():
    # Python ignores SIGINT where its parent does, as shells do in the background.
    script = (
        "import sys, signal, time\nfrom cli.command import run_command\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "main = lambda: print('caf\\u00e9 \\U0001f3ac', flush=True) or time.sleep(60)\n"
        "sys.exit(run_command(main))"
    )
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    words = [sys.executable, "-c", script]
    process = subprocess.Popen(words, cwd=ROOT, env=environment, **both)
    assert process.stdout.readline() == b"caf\\xe9 \\U0001f3ac\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == b"interrupted: nothing was written\n"
    assert process.returncode == 130


def parser() -> Parser:
    result = Parser("quant.example", "What it does.", "examples:\n  python -m quant.example\n")
    options.add_tokens(result, 128)
    options.add_lanes(result, LANES)
    options.add_json(result)
    options.add_seed(result, "the texts")
    result.add_argument("--share", type=options.whole(2, 5), default=3)
    return result


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tokens", "many"], "argument --tokens: 'many' is not a whole number"),
        (["--tokens", "0"], "argument --tokens: 0 is out of range: it must be 1 or more"),
        (["--share", "6"], "argument --share: 6 is out of range: it must be 2 to 5"),
        (["--seed", "-1"], "argument --seed: -1 is out of range: it must be 0 to 4294967295"),
        (["--lanes", "5"], "argument --lanes: invalid choice: 5 (choose from 4, 8, 16, 32, 64)"),
        (["--max-tokens", "5"], "unrecognized arguments: --max-tokens 5"),
        (["--json"], "argument --json: expected one argument"),
    ],
)
def test_a_wrong_option_is_one_line_and_code_2(arguments, said, capsys):
    with pytest.raises(SystemExit) as stop:
        parser().parse_args(arguments)
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"error: {said}; --help shows what is allowed\n"
    assert parser().parse_args([]).lanes == Config().lanes


def test_figures_go_to_standard_output_alone(capsys):
    """`--json -`: what else is printed goes to stderr, but not in a command that follows."""

    def body(arguments: list[str]) -> None:
        chosen = parser().parse_args(arguments)
        print("a table")
        if chosen.json:
            write_json(chosen.json, {"n": 1})

    assert run_command(lambda: body(["--json", "-"])) == 0
    said = capsys.readouterr()
    assert (json.loads(said.out), said.err) == ({"n": 1}, "a table\n")
    assert run_command(lambda: body([])) == 0
    assert capsys.readouterr().out == "a table\n"
    assert not Path("-").exists()
    assert run_command(lambda: Exit.DIFFERENT) == Exit.DIFFERENT


def test_counted_things():
    things = [(0, "texts"), (1658, "texts"), (1, "queries"), (1, "batches"), (1, "classes")]
    said = ["0 texts", "1,658 texts", "1 query", "1 batch", "1 class"]
    assert [counted(*each) for each in things] == said


def test_every_command_has_one_name_and_the_help_shows_it(monkeypatch, capsys):
    assert sorted(journey.COMMANDS.values()) == sorted(set(COMMANDS) - {"setup"})
    for words, code in ((["--help"], 0), (["--version"], 0), (["calibrat", "--help"], 2)):
        monkeypatch.setattr("sys.argv", ["bert2rtl", *words])
        monkeypatch.setattr("sys.path", [*sys.path])
        assert door.main() == code
    shown, error = capsys.readouterr()
    assert set(journey.COMMANDS) <= set(shown.split())
    assert options.version() in shown
    assert error.startswith("error: no command is called 'calibrat': ")


def test_commands_are_called_as_the_user_called_this_one(monkeypatch):
    text = "run `.venv/bin/python -m sim.run`, python3 -m rtl.generate or python -m rtl.generate.x"
    assert journey.spoken(text) == text
    monkeypatch.setattr(journey, "entered", True)
    said = "run `bert2rtl simulate`, bert2rtl generate or python -m rtl.generate.x"
    assert journey.spoken(text) == said

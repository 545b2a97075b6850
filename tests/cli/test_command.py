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
from cli.progress import duration
from cli.words import counted

import numpy as np
import pytest

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
        (OSError("no number"), 2, "error: no number\n"),
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


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: np.ones((3, 4)) @ np.ones((5, 6)),
        lambda: int("x"),
        raising(AssertionError("x")),
        raising(KeyError("x")),
        raising(missing("quant.own.module")),
    ],
)
def test_a_mistake_of_the_program_keeps_its_traceback(mistake):
    with pytest.raises((ValueError, AssertionError, KeyError, ModuleNotFoundError)):
        run_command(mistake)


def in_a_process(body: str, *, encoding: str = "utf-8", **options) -> subprocess.Popen:
    head = "import sys\nfrom cli.command import run_command"
    script = f"{head}\ndef main():\n{body}\nsys.exit(run_command(main))\n"
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    command = [sys.executable, "-c", script]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize(("count", "code"), [(1, 0), (100_000, 1)], ids=["at the end", "between"])
def test_a_reader_that_leaves_ends_the_printing_and_not_the_work(count, code, tmp_path):
    # The file shows that the body ran to its end, the code that its verdict arrived.
    done = tmp_path / "done"
    body = f" for i in range({count}): print(i)\n open({str(done)!r}, 'w')\n return {code}"
    reader, writer = os.pipe()
    os.close(reader)
    process = in_a_process(body, stdout=writer)
    os.close(writer)
    assert process.communicate() == (None, b"")
    assert (process.returncode, done.exists()) == (code, True)


def test_what_the_terminal_cannot_show_is_escaped_and_ctrl_c_is_one_line():
    # Python ignores SIGINT where its parent does, as shells do in the background.
    head = " import signal, time\n signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    body = head + " print('caf\\u00e9 \\U0001f3ac', flush=True)\n time.sleep(60)"
    process = in_a_process(body, encoding="ascii", stdout=subprocess.PIPE)
    assert process.stdout is not None
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


def test_numbers_and_counted_things():
    times = [(4.4, "4 s"), (89, "89 s"), (95, "2 min"), (600, "10 min"), (9000, "2.5 h")]
    assert [duration(seconds) for seconds, _ in times] == [said for _, said in times]
    things = [(0, "texts"), (1658, "texts"), (1, "queries"), (1, "batches"), (1, "classes")]
    said = ["0 texts", "1,658 texts", "1 query", "1 batch", "1 class"]
    assert [counted(*each) for each in things] == said


def door(*words: str, folder: Path = ROOT) -> tuple[int, str, str]:
    """Exit code, output and errors of the front door, from a folder."""
    command = [sys.executable, "-m", "bert2rtl", *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_every_command_has_one_name_and_the_help_shows_it():
    assert sorted(journey.COMMANDS.values()) == sorted(set(COMMANDS) - {"setup"})
    code, shown, error = door()
    assert (code, error) == (0, "")
    lines = [line.split() for line in shown.splitlines() if line.startswith("  ")]
    assert [words[0] for words in lines] == list(journey.COMMANDS)
    assert all(len(words) > 3 for words in lines)
    assert door("--version")[:2] == (0, f"bert2rtl {options.version()}\n")
    code, shown, error = door("calibrat", "--help")
    assert (code, shown) == (2, "")
    assert error.startswith("error: no command is called 'calibrat': ")


def test_commands_are_called_as_the_user_called_this_one(monkeypatch):
    text = "run `.venv/bin/python -m sim.run`, python3 -m rtl.generate or python -m rtl.generate.x"
    assert journey.spoken(text) == text
    monkeypatch.setattr(journey, "entered", True)
    said = "run `bert2rtl simulate`, bert2rtl generate or python -m rtl.generate.x"
    assert journey.spoken(text) == said


@pytest.mark.slow
def test_it_runs_from_any_folder_and_writes_below_it(tmp_path):
    """The shipped checkpoint is found beside the package."""
    code, shown, _ = door("inspect", folder=tmp_path)
    assert (code, str(ROOT / "models" / "bert-tiny-imdb") in shown) == (0, True)
    assert door("generate", "reciprocal", "--lanes", "4", folder=tmp_path)[0] == 0
    written = {path.name for path in (tmp_path / "build" / "rtl").iterdir()}
    assert {"reciprocal.v", "reciprocal.json"} <= written

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from cli import command
from cli.command import Exit, run_command
from cli.errors import Different, Interrupted, ToolError, UserError
from cli.files import write_json
from cli.options import Parser, add_json

import pytest

ROOT = Path(__file__).resolve().parents[2]


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
        (
            missing("torch.nn"),
            3,
            "error: the package torch.nn is not installed: run `make setup-train`, then use "
            ".venv/bin/python\n",
        ),
    ],
)
def test_an_error_is_one_line_and_a_code(error, code, line, capsys):
    assert command.run_command(raising(error)) == code
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize("error", [AssertionError("x"), KeyError("x"), missing("our.own.module")])
def test_a_mistake_of_the_program_keeps_its_traceback(error):
    with pytest.raises(type(error)):
        command.run_command(raising(error))


def test_a_body_without_a_code_has_ended_well():
    assert command.run_command(lambda: None) == Exit.OK
    assert command.run_command(lambda: Exit.DIFFERENT) == Exit.DIFFERENT


def test_argparse_keeps_its_exit():
    with pytest.raises(SystemExit) as stop:
        command.run_command(raising(SystemExit(2)))
    assert stop.value.code == 2


def in_a_process(body: str, *, encoding: str = "utf-8", **options) -> subprocess.Popen:
    head = "import sys\nfrom cli.command import run_command"
    script = f"{head}\ndef main():\n{body}\nsys.exit(run_command(main))\n"
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        stderr=subprocess.PIPE,
        **options,
    )


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("count", [1, 100_000], ids=["at the end", "in between"])
def test_a_reader_that_leaves_ends_the_printing_and_not_the_work(code, count, tmp_path):
    # The file shows that the body ran to its end, the code that its verdict arrived.
    done = tmp_path / "done"
    body = f" for i in range({count}): print(i)\n open({str(done)!r}, 'w')\n return {code}"
    reader, writer = os.pipe()
    os.close(reader)
    process = in_a_process(body, stdout=writer)
    os.close(writer)
    assert process.communicate() == (None, b"")
    assert process.returncode == code
    assert done.exists()


def test_what_the_terminal_cannot_show_is_escaped():
    body = " print('caf\\u00e9 \\U0001f3ac')"
    process = in_a_process(body, encoding="ascii", stdout=subprocess.PIPE)
    assert process.communicate() == (b"caf\\xe9 \\U0001f3ac\n", b"")
    assert process.returncode == 0


def test_ctrl_c_is_one_line():
    # Python ignores SIGINT where its parent does, as shells do in the background.
    head = " import signal, time\n signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    body = head + " print('ready', flush=True)\n time.sleep(60)"
    process = in_a_process(body, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate()[1] == b"interrupted: nothing was written\n"
    assert process.returncode == 130


def test_figures_go_to_standard_output_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json -`: what else is printed goes to stderr, also in a command that follows."""

    def body(arguments: list[str]) -> None:
        parser = Parser("some.command", "", "")
        add_json(parser)
        options = parser.parse_args(arguments)
        print("a table")
        if options.json:
            write_json(options.json, {"n": 1})

    assert run_command(lambda: body(["--json", "-"])) == 0
    said = capsys.readouterr()
    assert (json.loads(said.out), said.err) == ({"n": 1}, "a table\n")
    assert run_command(lambda: body([])) == 0
    assert capsys.readouterr().out == "a table\n"
    assert not Path("-").exists()

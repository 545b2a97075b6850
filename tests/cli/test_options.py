import re

from cli import options
from cli.extras import how
from cli.options import Parser
from cli.progress import Bar, duration, progress, stage
from cli.words import counted

import pytest

from rtl.interface.config import LANES, Config


def parser() -> Parser:
    result = Parser("quant.example", "What it does.", "examples:\n  python -m quant.example\n")
    options.add_model(result)
    options.add_quantized(result)
    options.add_tokens(result, 128)
    options.add_lanes(result, LANES)
    options.add_json(result)
    options.add_seed(result, "the texts")
    options.add_jobs(result, "simulations")
    result.add_argument("--share", type=options.whole(2, 5), default=3)
    return result


def test_help_shows_the_description_the_defaults_and_the_examples(capsys):
    with pytest.raises(SystemExit) as stop:
        parser().parse_args(["--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    for part in (
        "What it does.",
        "models/bert-tiny-imdb",
        "default: 128",
        "default: 8",
        "4, 8, 16, 32, 64",
        "examples:\n  python -m quant.example",
    ):
        assert part in shown


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


def test_the_lanes_of_a_command_are_those_of_a_configuration():
    assert Config().lanes == options.LANES
    assert parser().parse_args([]).lanes == Config().lanes


def test_every_package_that_is_imported_has_its_target():
    used = ["numpy", "amaranth", "cocotb", "distributed", "litex", "pyarrow", "torch", "wavedrom"]
    assert [name for name in used if not how(name)] == []
    assert how("quant.report") == ""


def test_without_a_terminal_a_stage_is_one_line(capsys):
    assert list(progress([1, 2], "measuring")) == [1, 2]
    assert list(progress(iter([1]), "reading")) == [1]
    assert list(progress(iter("ab"), "cutting", unit="cases", total=2)) == ["a", "b"]
    stage("building")
    assert capsys.readouterr() == (
        "",
        "measuring: 2 texts\nreading\ncutting: 2 cases\nbuilding\n",
    )


@pytest.mark.parametrize("way", ["items", "bar"])
@pytest.mark.parametrize(("seconds", "lines"), [(0.01, 0), (1.0, 4)])
def test_without_a_terminal_long_work_says_what_is_left(way, seconds, lines, capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr("cli.progress.monotonic", lambda: now)
    options = {"unit": "texts", "shorter": "fewer --samples"}
    if way == "items":
        for _ in progress(range(100), "measuring", **options):
            now += seconds
    else:
        with Bar("measuring: 100 texts", 400, **options) as bar:
            for i in range(100):
                now += seconds
                bar.left(100 - i)
                bar.advance(1)
    shown, error = capsys.readouterr()
    told = error.splitlines()
    assert (shown, told[0], len(told) - 1) == ("", "measuring: 100 texts", lines)
    for line in told[1:2]:
        assert line.endswith("%, about 95 s left; fewer --samples shorten it") or "2 min" in line
    for line in told[2:]:
        assert re.search(r": \d+%, about \d+ s left$", line), line


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(4.4, "4 s"), (89, "89 s"), (95, "2 min"), (600, "10 min"), (9000, "2.5 h")],
)
def test_a_duration_has_one_unit(seconds, said):
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("number", "things", "said"),
    [
        (0, "texts", "0 texts"),
        (1, "texts", "1 text"),
        (1658, "texts", "1,658 texts"),
        (1, "queries", "1 query"),
        (1, "batches", "1 batch"),
        (1, "classes", "1 class"),
    ],
)
def test_one_way_to_count(number, things, said):
    assert counted(number, things) == said


def test_on_a_terminal_there_is_a_bar(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert list(progress([1, 2], "measuring")) == [1, 2]
    assert "measuring" in capsys.readouterr().err

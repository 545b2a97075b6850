"""docs/measurements.toml: the pages and the estimates hold to it, and `make figures` compares."""

from __future__ import annotations

import importlib
import json
import re
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from cli.keys import documented

import pytest

from docs import figures
from docs.figures import Measurement, found_in, like, load, page, shown
from rtl.interface.config import Config
from rtl.interface.options import options_of
from sim.estimate import area
from tests.cli.test_commands import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
MEASUREMENTS = load()
#: A figure: thousands apart, or decimals.
FIGURE = re.compile(r"(?<![\w.,/-])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+)(?![\w,]|\.\d)")
#: Numbers that no command measures: limits, versions, constants of a chip or a protocol.
STATED = {
    "README.md": {"3.11", "2.0", "0.51"},
    "docs/index.md": set(),
    "docs/tutorial.md": set(),
    "docs/howto.md": {"1.8", "1,797"},
    "docs/models.md": {
        "1,024",
        "4,096",
        "1,023",
        "8,192",
        "89,478,485",
        "3.5",
        "5.0",
        "0.01",
        "1.0",
        "0.0",
    },
    "docs/fpga.md": {"1,028", "1,000,000", "1.5", "62.5", "2024.12", "0.10.0", "3.11"},
    # The process, voltages and the assumed slow corner; kGE a MAC, checked by their parts below.
    "docs/silicon.md": {"0.18", "1.62", "1.7", "1.8", "0.8", "1.5", "1.14", "1.15", "1.16"},
    "docs/verification.md": {
        "1,000",
        "100,000",
        "2,500",
        "4,096",
        "196,608",
        "120,000",
        "0.1",
        "0.25",
    },
}


def recorded() -> set[str]:
    values = {shown(value) for one in MEASUREMENTS for row in one.all for value in row}
    notes = " ".join([*values, *(one.note for one in MEASUREMENTS)])
    return values | set(FIGURE.findall(notes))


def test_the_page_is_made_of_the_file() -> None:
    text = figures.PAGE.read_text(encoding="utf-8")
    assert text == page(MEASUREMENTS)
    assert text.count("\n") <= 210


@pytest.mark.parametrize("name", STATED)
def test_a_page_states_no_figure_of_its_own(name: str) -> None:
    found = set(FIGURE.findall((ROOT / name).read_text(encoding="utf-8")))
    assert found - recorded() <= STATED[name]


def test_the_output_in_the_readme_is_the_recorded_one() -> None:
    (run,) = [one for one in MEASUREMENTS if one.name == "sim.review"]
    (row,) = run.rows
    value = {column: shown(cell) for column, cell in zip(run.columns, row)}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{value['cycles']} cycles from the start to the last logit: " in readme
    assert f": {value['time at 100 MHz']} ms at 100 MHz, {value['texts']} texts a" in readme
    assert f"Ideal {value['ideal cycles']} cycles for {value['products']} MACs" in readme


def test_the_three_figures_of_the_overview_are_those_of_their_rows() -> None:
    """Each column of the table is about one recorded row, and has its figures alone."""

    def cells(name: str, start: tuple[str, ...]) -> dict[str, str]:
        (one,) = [one for one in MEASUREMENTS if one.name == name]
        (row,) = [row for row in one.all if tuple(map(str, row[: len(start)])) == start]
        return dict(zip(one.columns, map(shown, row)))

    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    head, _, body = text[text.index("| 562,959") :].split("\n")[:3]
    told = [" ".join(pair) for pair in zip(head.split("|")[1:4], body.split("|")[1:4])]
    run = cells("sim.review", ("8",))
    accuracy = cells(
        "accuracy.classes", ("BERT-Tiny, shipped", "5,000 IMDB test reviews, 512 tokens")
    )
    base = cells("published", ("32 lanes", "whole"))
    expected = [
        {run["cycles"], run["time at 100 MHz"]},
        {accuracy["accuracy, integers"], accuracy["accuracy, float"], "5,000"},
        {base["utilisation"]},
    ]
    assert [set(FIGURE.findall(one)) for one in told] == expected


def test_the_estimates_are_fitted_to_the_recorded_synthesis() -> None:
    (synthesis,) = [one for one in MEASUREMENTS if one.name == "synthesis.accelerator"]
    written = {(row[0], row[1]): list(row[2:6]) for row in synthesis.all}
    points = {}
    for point in area.points():
        lanes = point.config.lanes
        choices = " ".join(options_of(point.config, Config(lanes=lanes)))
        points[lanes, choices] = [point.resources[name] for name in area.RESOURCES]
    assert written == points


def test_silicon_is_compared_by_its_rule() -> None:
    """Area by the process squared, energy by the process and the voltage squared."""

    def rows(name: str) -> list[dict[str, Any]]:
        (one,) = [one for one in MEASUREMENTS if one.name == name]
        return [dict(zip(one.columns, row)) for row in one.all]

    published = {row["design"]: row for row in rows("silicon.published")}
    parts = {row["lanes"]: row for row in rows("silicon.parts")}
    page = (ROOT / "docs" / "silicon.md").read_text(encoding="utf-8")
    for row in rows("silicon.accelerator"):
        lanes = row["lanes"]
        mine, macs = published[f"{lanes} lanes"], lanes**2
        area = 2 * macs * float(row["clock, slow"]) / 1e3 / float(row["area"])
        watts = float(row["power, flip-flops"] + row["power, gates"]) / 1e3
        energy = 2 * macs * 0.1 / watts
        assert float(mine["per area"]) == pytest.approx(area, rel=2e-3)
        assert float(mine["per energy"]) == pytest.approx(energy, rel=5e-3)
        smaller = 180 / 22
        assert float(mine["per area at 22 nm"]) == pytest.approx(area * smaller**2, rel=2e-3)
        scaled = energy * smaller * (1.8 / 0.8) ** 2
        assert float(mine["per energy at 22 nm and 0.8 V"]) == pytest.approx(scaled, rel=5e-3)
        parted = sum(value for name, value in parts[lanes].items() if name != "lanes")
        assert float(parted) == pytest.approx(float(row["cells"]), abs=0.3)
        assert f"{float(parts[lanes]['array']) / macs:.2f}" in page
    for row in published.values():
        if row["process"] != 180:
            shrunk = float(row["per area"]) * (row["process"] / 22) ** 2
            assert float(row["per area at 22 nm"]) == pytest.approx(shrunk, rel=1e-3)


def test_every_command_of_the_file_is_one() -> None:
    for one in MEASUREMENTS:
        for row in one.all:
            for command, _ in one.commands(row):
                match = re.match(r"(?:time )?(?:python -m ([\w.]+)|make \w)", command)
                assert match, command
                path = ROOT.joinpath(*(match[1] or "sim").split("."))
                assert path.with_suffix(".py").exists() or (path / "__init__.py").exists(), command


def test_what_is_read_is_a_key_of_the_command() -> None:
    """What `--help` shows of its --json; in a list that of an entry."""
    for one in MEASUREMENTS:
        paths = [path.partition(" * ")[0] for path in [*one.read.values(), *one.by]]
        for command in {command.split()[2] for row in one.all for command, _ in one.commands(row)}:
            if not paths:
                continue
            module: Any = importlib.import_module(COMMANDS[command])
            shapes = getattr(module, "parser", getattr(module, "_parser", None))().keys.values()
            for path in paths:
                whole = f"{one.each}[].{path}" if one.each else path
                written = any(documented(keys, whole) for keys in shapes)
                assert written, f"{one.name}: {command} writes no {whole}"


def entry(**changes: Any) -> Measurement:
    given = {
        "name": "a",
        "section": "S",
        "title": "T",
        "date": "2026-01-02",
        "command": "python -m x --lanes {lanes} {vary}",
        "columns": ["lanes", "short", "long", "_o"],
        "units": ["", "cycles", "%", ""],
        "rows": [[4, 1234, Decimal("0.50"), "q"]],
        "vary": {"short": "--t 1", "long": "--t 2"},
        "read": {"short": "total", "long": "share.of * 100"},
    }
    return Measurement(**(given | changes))


def test_a_page_shows_units_and_hides_options() -> None:
    text = page([entry()])
    assert "## S\n\n**T.** `python -m x --lanes {lanes} ...`, 2026-01-02.\n" in text
    assert "| lanes | short (cycles) | long (%) |\n| ---: | ---: | ---: |\n" in text
    assert "| 4 | 1,234 | 0.50 |\n" in text
    wide = [f"c{i}" for i in range(10)]
    row = {"columns": wide, "units": [""] * 10, "rows": [list(range(1000, 1010))]}
    row |= {"vary": {}, "read": {}, "command": "python -m x"}
    assert "| figure | value |\n| --- | ---: |\n| c0 | 1,000 |\n| c1 |" in page([entry(**row)])
    assert "T" not in page([entry(rows=[], more=[[4, 1, Decimal(1), "q"]])]).partition("\n## ")[2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": [[4]]}, "a: 4 columns, but"),
        ({"units": [""]}, "a: 4 columns, but"),
        ({"read": {"other": "x"}}, "a has no column other"),
        ({"vary": {"shorter": "x"}}, "a has no column shorter"),
    ],
)
def test_an_entry_that_does_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        entry(**changes)


def test_a_new_figure_has_the_decimals_of_the_old_one() -> None:
    assert like(Decimal("90.10"), 90.0951) == Decimal("90.10")
    assert like(1234, 1234.4) == 1234
    assert like(Decimal("0.50"), None) == "not printed"
    assert found_in({"share": {"of": 0.25}}, "share.of * 100") == 25
    assert found_in({"share": 1}, "share.of") is None


PROGRAM = """\
import json, sys
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
rows = [{"n": 4, "total": 1234}, {"n": 8, "total": 99}]
told = {"total": 1000 * int(given["--t"]) + 234, "share": {"of": 0.5 / 100}, "rows": rows}
json.dump(told, open(given["--json"], "w"))
"""


@pytest.fixture
def command(tmp_path: Path) -> str:
    (tmp_path / "x.py").write_text(PROGRAM)
    return f"{sys.executable} {tmp_path / 'x.py'}"


def test_old_figures_stand_beside_new_ones(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one = entry(command=command + " {vary}")
    assert figures.again([one], ["a*"], "*") == 0
    assert "differs" not in capsys.readouterr().out
    wrong = entry(command=command + " {vary}", rows=[[4, 1233, Decimal("0.50"), "q"]])
    assert figures.again([wrong], ["a"], "*") == 1
    assert re.search(r"4 +short +1,233 +1,234 +differs", capsys.readouterr().out)


def test_a_row_finds_its_own_in_a_list(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = {"columns": ["lanes", "total"], "units": ["", ""], "vary": {}, "each": "rows"}
    made |= {"command": f"{command} --t 1", "by": {"n": "lanes"}, "read": {"total": "total"}}
    assert figures.again([entry(**made, rows=[[4, 1234], [8, 99]])], ["a"], "*") == 0
    assert figures.again([entry(**made, rows=[[4, 1234], [8, 98]])], ["a"], "*") == 1
    assert figures.again([entry(**made, rows=[[4, 1234], [8, 98]])], ["a"], "4") == 0
    assert figures.again([entry(**made, rows=[[2, 99]])], ["a"], "*") == 1
    assert "not printed" in capsys.readouterr().out


def test_a_name_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert figures.main(["nothing*"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: no measurement is called nothing*: there are sim.review, ")
    assert error.count("\n") == 1


def test_a_command_that_fails_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("raise SystemExit(3)")
    failing = entry(command=f"{sys.executable} {tmp_path / 'x.py'} {{vary}}")
    with pytest.raises(figures.ToolError, match="ended with 3"):
        figures.again([failing], ["a"], "*")


def test_the_json_of_a_run_is_read_once(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    real = figures.run

    def counted(text: str, *more: str) -> None:
        runs.append(text)
        real(text, *more)

    monkeypatch.setattr(figures, "run", counted)
    rows = [[4, 1234, Decimal("0.50"), "q"]] * 3
    assert figures.again([entry(command=command + " {vary}", rows=rows)], ["a"], "*") == 0
    assert len(runs) == 2
    assert json.dumps(runs).count("--t 1") == 1

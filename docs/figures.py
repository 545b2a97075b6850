"""The figures of the documents: docs/results.md made of docs/measurements.toml, and measured again.

`python -m docs.figures` writes the page and lists the measurements. With patterns of their names it
runs their commands and shows the recorded figure beside the new one.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from cli.command import Exit, ToolError, run_command
from cli.files import write
from cli.options import Parser

from sim.report import table

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
FILE, PAGE = DOCS / "measurements.toml", DOCS / "results.md"
EXAMPLES = """\
  python -m docs.figures
  python -m docs.figures "cycles*"
  python -m docs.figures synthesis.accelerator --rows "8, *"
"""
Value = str | int | Decimal
WIDE = 8
"""Columns, above which the figures of a single row stand below each other."""
INTRODUCTION = """\
Figures by which to compare models, sizes and checks, each table with the command that prints it
and its day. `make figures` writes this page from `measurements.toml`, which has all figures, and
measures chosen ones again. [Design notes](design-notes.md) say what each decision gave. The
machine: two x86-64 cores, shared.
"""
WIDTH = 120


def filled(text: str) -> str:
    """A paragraph in lines of `WIDTH`."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The figures of one command; the fields are those that docs/measurements.toml explains."""

    name: str
    section: str
    title: str
    command: str
    date: date
    columns: Sequence[str]
    units: Sequence[str]
    rows: Sequence[Sequence[Value]]
    more: Sequence[Sequence[Value]] = ()
    note: str = ""
    needs: Sequence[tuple[str, str]] = ()
    vary: Mapping[str, str] = field(default_factory=dict)
    read: Mapping[str, str] = field(default_factory=dict)
    each: str = ""
    by: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wrong = [row for row in self.all if len(row) != len(self.columns)]
        if wrong or len(self.units) != len(self.columns):
            raise ValueError(f"{self.name}: {len(self.columns)} columns, but {wrong or self.units}")
        unknown = {*self.vary, *self.read, *self.by.values()} - set(self.columns)
        if unknown:
            raise ValueError(f"{self.name} has no column {', '.join(sorted(unknown))}")

    @property
    def all(self) -> list[Sequence[Value]]:
        return [*self.rows, *self.more]

    def label(self, row: Sequence[Value]) -> str:
        """The name of a row: its values that no command prints."""
        named = zip(self.columns, row)
        kept = [shown(v) for c, v in named if c not in self.read and not c.startswith("_")]
        return ", ".join(text for text in kept if text)

    def commands(self, row: Sequence[Value]) -> Iterator[tuple[str, list[str]]]:
        """The commands of a row, each with the columns that its `--json` holds."""
        values = dict(zip(self.columns, row))
        if not self.vary:
            yield self.command.format_map(values), list(self.read)
        for column, option in self.vary.items():
            yield self.command.format_map(values | {"vary": option}), [column]


def load(path: Path = FILE) -> list[Measurement]:
    """The measurements of the file, in its order.

    Raises
    ------
    ValueError
        A row, a column or a name does not fit.
    """
    found = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)["measured"]
    measurements = [Measurement(**entry) for entry in found]
    names = [one.name for one in measurements]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path.name} has {', '.join(twice)} twice")
    return measurements


def shown(value: Value) -> str:
    """The value as documents write it, with thousands apart."""
    return value if isinstance(value, str) else f"{value:,}"


def page(measurements: Sequence[Measurement]) -> str:
    """Text of docs/results.md."""
    lines, section = ["# Results\n", filled(INTRODUCTION)], ""
    for one in measurements:
        if not one.rows:
            continue
        if one.section != section:
            section = one.section
            lines.append(f"## {section}\n")
        kept = [i for i, column in enumerate(one.columns) if not column.startswith("_")]
        command = re.sub(r"( \{(_\w+|vary)\})+", " ...", one.command)
        said = "" if command.startswith("{") else f" `{command}`,"
        text = f"**{one.title}.**{said} {one.date}. {one.note}"
        lines.append(filled(text))
        units = [f" ({unit})" if unit else "" for unit in one.units]
        head = [one.columns[i] + units[i] for i in kept]
        right = [all(not isinstance(row[i], str) or not row[i] for row in one.rows) for i in kept]
        body = [[shown(row[i]) for i in kept] for row in one.rows]
        if len(body) == 1 and len(head) > WIDE:  # a line a figure
            head, right, body = (
                ["figure", "value"],
                [False, True],
                list(map(list, zip(head, *body))),
            )
        ruler = ["---:" if number else "---" for number in right]
        lines += [f"| {' | '.join(cells)} |" for cells in (head, ruler, *body)]
        lines.append("")
    return "\n".join(lines)


def found_in(result: Any, path: str) -> Any:
    """The value of `a.b * 100` in JSON; None where it is missing."""
    keys, _, factor = path.partition(" * ")
    for key in keys.split("."):
        result = result.get(key) if isinstance(result, dict) else None
    return result * float(factor) if factor and result is not None else result


def like(old: Value, new: Any) -> Value:
    """The new figure with as many decimals as the old one."""
    if new is None:
        return "not printed"
    if isinstance(old, str) or isinstance(new, str):
        return str(new)
    return round(new) if isinstance(old, int) else Decimal(new).quantize(old)


def run(command: str, *more: str) -> None:
    """Run a command of the file in the project's folder; with more arguments silently.

    Raises
    ------
    ToolError
        It ended with another code than 0.
    """
    words = [*shlex.split(command), *more]
    print(f"$ {shlex.join(words)}", flush=True)
    words[0] = sys.executable if words[0] == "python" else words[0]
    code = subprocess.run(words, cwd=ROOT, stdout=subprocess.DEVNULL if more else None).returncode
    if code:
        raise ToolError(f"{command} ended with {code}")


def measure(one: Measurement, pattern: str) -> list[tuple[str, str, Value, Value]]:
    """Row, column, recorded and new figure of the rows whose label fits the pattern."""
    for path, command in one.needs:
        if not (ROOT / path).exists():
            run(command)
    printed: dict[str, Any] = {}
    compared = []
    for row in one.all:
        if not fnmatch.fnmatchcase(one.label(row), pattern):
            continue
        values = dict(zip(one.columns, row))
        for command, columns in one.commands(row):
            if command not in printed:
                printed[command] = _run_for_json(command, bool(one.read))
            place = printed[command]
            if one.each:
                fitting = [
                    entry
                    for entry in found_in(place, one.each) or ()
                    if all(found_in(entry, key) == values[name] for key, name in one.by.items())
                ]
                place = fitting[0] if fitting else None
            for column in columns:
                new = found_in(place, one.read[column])
                if values[column] != "":
                    compared.append((one.label(row), column, values[column], new))
    return [(name, column, old, like(old, new)) for name, column, old, new in compared]


def _run_for_json(command: str, read: bool) -> Any:
    if not read:
        run(command)
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        run(command, "--json", str(file))
        return json.loads(file.read_text(encoding="utf-8"))


def again(measurements: Sequence[Measurement], patterns: Sequence[str], rows: str) -> int:
    """Measure those whose names fit; 1 where a figure differs from the recorded one."""
    chosen = [m for m in measurements if any(fnmatch.fnmatchcase(m.name, p) for p in patterns)]
    if not chosen:
        names = ", ".join(one.name for one in measurements)
        raise ValueError(f"no measurement is called {' or '.join(patterns)}: there are {names}")
    differs = 0
    for one in chosen:
        compared = measure(one, rows)
        lines = [
            [name, column, shown(old), shown(new), "" if old == new else "differs"]
            for name, column, old, new in compared
        ]
        differs += sum(bool(line[-1]) for line in lines)
        print(f"\n{one.name}, recorded on {one.date}")
        if lines:
            print(table(["row", "figure", "recorded", "now", ""], lines))
        else:
            print("Its command has no JSON of these figures: compare what it printed above.")
    return Exit.DIFFERENT if differs else Exit.OK


def parser() -> Parser:
    result = Parser(
        "docs.figures", "Figures of the documents: their page, or measured again.", EXAMPLES
    )
    result.add_argument(
        "names", nargs="*", metavar="NAME", help="measure these again; * stands for any text"
    )
    result.add_argument(
        "--rows",
        default="*",
        metavar="TEXT",
        help="only rows of this label; * stands for any text (default: all)",
    )
    return result


def _run(options: argparse.Namespace) -> int:
    measurements = load()
    if options.names:
        return again(measurements, options.names, options.rows)
    write(PAGE, page(measurements))
    rows = [[one.name, len(one.all), one.title] for one in measurements]
    print(table(["name", "rows", "figures"], rows))
    print(f"page: {PAGE}")
    return Exit.OK


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(parser().parse_args(arguments)))


if __name__ == "__main__":
    sys.exit(main())

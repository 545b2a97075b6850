"""docs/results.md, made of docs/measurements.toml: `python -m docs.figures`."""

from __future__ import annotations

import re
import sys
import textwrap
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path

from cli.command import run_command
from cli.errors import UserError
from cli.files import write
from cli.options import Parser

from sim.report import table

DOCS = Path(__file__).resolve().parent
FILE, PAGE = DOCS / "measurements.toml", DOCS / "results.md"
Value = str | int | Decimal
INTRODUCTION = """\
Figures by which to compare models, sizes and checks, each table with the command that prints it
and its day. `make figures` writes this page from `measurements.toml`. [Design
notes](design-notes.md) say what each decision gave. The machine: two x86-64 cores, shared.
"""
WIDTH = 130
WIDE = 8  # columns of a table of one row, above which it has a line a figure


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

    def __post_init__(self) -> None:
        wrong = [row for row in self.all if len(row) != len(self.columns)]
        if wrong or len(self.units) != len(self.columns):
            raise UserError(f"{self.name}: {len(self.columns)} columns, but {wrong or self.units}")

    @property
    def all(self) -> list[Sequence[Value]]:
        return [*self.rows, *self.more]


def load(path: Path = FILE) -> list[Measurement]:
    """The measurements of the file, in its order; ValueError where a row does not fit."""
    found = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)["measured"]
    return [Measurement(**entry) for entry in found]


def shown(value: Value) -> str:
    """The value as documents write it, with thousands apart."""
    return value if isinstance(value, str) else f"{value:,}"


def page(measurements: Sequence[Measurement]) -> str:
    """Text of docs/results.md."""
    lines, section = ["# Results\n", _filled(INTRODUCTION)], ""
    for one in measurements:
        if not one.rows:
            continue
        if one.section != section:
            section = one.section
            lines.append(f"## {section}\n")
        command = re.sub(r"( \{(_\w+|vary)\})+", " ...", one.command)
        said = "" if command.startswith("{") else f" `{command}`,"
        lines.append(_filled(f"**{one.title}.**{said} {one.date}. {one.note}"))
        lines += [*_table(one), ""]
    return "\n".join(lines)


def _table(one: Measurement) -> list[str]:
    kept = [i for i, column in enumerate(one.columns) if not column.startswith("_")]
    head = [f"{one.columns[i]} ({one.units[i]})".removesuffix(" ()") for i in kept]
    right = [all(not isinstance(row[i], str) or not row[i] for row in one.rows) for i in kept]
    body = [[shown(row[i]) for i in kept] for row in one.rows]
    if len(body) == 1 and len(head) > WIDE:
        head, right, body = ["figure", "value"], [False, True], [*map(list, zip(head, body[0]))]
    ruler = ["---:" if number else "---" for number in right]
    return [f"| {' | '.join(cells)} |" for cells in (head, ruler, *body)]


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> None:
    Parser("docs.figures", "Write docs/results.md.", "").parse_args(arguments)
    measurements = load()
    write(PAGE, page(measurements))
    print(table(["name", "rows"], [[one.name, len(one.rows)] for one in measurements]))
    print(f"page: {PAGE}")


if __name__ == "__main__":
    sys.exit(main())

"""What synthesis gave, out of docs/results.md: the one place where measured figures stand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from rtl.interface.config import Config

RESULTS = Path(__file__).resolve().parents[3] / "docs" / "results.md"
CHAPTER = "## Synthesis on an ECP5"
SECTION = "### The whole accelerator"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Figures of one configuration, in the words of the document.

    Attributes
    ----------
    means
        Part, tools and target.
    command
        What prints the figures.
    header, row
        Cells of the table: lanes, LUT4, FF, DSP, block RAM, Fmax.
    remarks
        The paragraph below the table.
    """

    means: str
    command: str
    header: tuple[str, ...]
    row: tuple[str, ...]
    remarks: str


def measured(config: Config, text: str | None = None) -> Measured | None:
    """What was measured of a configuration; None where nothing was, or the document is not there.

    text
        Of the document.

    Raises
    ------
    ValueError
        The document has not the form that is read here.
    """
    if text is None:
        if not RESULTS.is_file():
            return None
        text = RESULTS.read_text(encoding="utf-8")
    if config != Config(lanes=config.lanes):
        return None
    chapter = text.partition(f"\n{CHAPTER}\n")[2].partition("\n## ")[0]
    blocks = chapter.partition(f"\n{SECTION}\n")[2].strip().split("\n\n")
    means = chapter.strip().partition("\n\n")[0]
    commands = [line.strip() for line in blocks[0].splitlines()]
    table = [_cells(line) for line in blocks[1].splitlines()] if len(blocks) > 2 else []
    if not means or not table or table[0][:1] != ("lanes",):
        raise ValueError(f"{RESULTS.name}: no table of the lanes below {CHAPTER}, {SECTION}")
    for row in table[2:]:
        if row[0] == str(config.lanes):
            lanes = re.compile(rf"\bLANES={config.lanes}\b|--lanes {config.lanes}\b")
            command = next((line for line in commands if lanes.search(line)), None)
            if command is None:
                raise ValueError(f"{RESULTS.name}: no command of {row[0]} lanes below {SECTION}")
            remarks = " ".join(blocks[2].split())
            return Measured(
                means=" ".join(means.split()),
                command=command,
                header=table[0],
                row=row,
                remarks=remarks,
            )
    return None


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))

"""Survivors that are known, each with the reason why no bench has to see it."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from verify.mutate.netlist import Mutant

LIST = Path(__file__).with_name("survivors.toml")
NEEDED = {"unit", "reason"}


@dataclass(frozen=True)
class Known:
    """One entry: the mutants that it stands for have all that it names.

    Attributes
    ----------
    unit, reason
        Of which unit, and why it may survive.
    line, module, cell, mode, port, wire, places, bits, other
        Where given: the text of a source line of its cell, its module (`*` for any part of the
        name), a part of the cell's name, the mode, the port of the cell, the signal (`*` again),
        the signal's bits, the bits of the port, and those that decide whether they are inverted.
    equivalent
        No allowed input shows it, as the reason says: every one was played, or none sets the bit.
    """

    unit: str
    reason: str
    line: str = ""
    module: str = ""
    cell: str = ""
    equivalent: bool = False
    mode: str = ""
    port: str = ""
    wire: str = ""
    places: tuple[int, ...] = ()
    bits: tuple[int, ...] = ()
    other: tuple[int, ...] = ()

    def covers(self, unit: str, mutant: Mutant) -> bool:
        """Whether this is one of its mutants."""
        wire, _, place = mutant.wire.removesuffix("]").rpartition("[")
        return (
            self.unit == unit
            and self.line in ("", *mutant.lines)
            and fnmatchcase(mutant.module, self.module or "*")
            and self.cell in mutant.cell
            and self.mode in ("", mutant.mode)
            and self.port in ("", mutant.port)
            and fnmatchcase(wire, self.wire or "*")
            and (not self.places or place in map(str, self.places))
            and (not self.bits or mutant.bit in self.bits)
            and (not self.other or mutant.other in self.other)
        )


FIELDS = {field.name for field in fields(Known)}


def known(path: Path = LIST) -> list[Known]:
    """The entries of a list.

    Raises
    ------
    ValueError
        The file is no TOML, or an entry lacks a field or has one too many.
    """
    try:
        entries: Sequence[dict[str, Any]] = tomllib.loads(path.read_text())["survivor"]
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError) as error:
        raise ValueError(f"{path}: {error}: it must hold [[survivor]] entries") from None
    found = []
    for number, entry in enumerate(entries, 1):
        wrong = entry.keys() - FIELDS | NEEDED - entry.keys()
        if wrong:
            raise ValueError(
                f"{path}: entry {number} has too much or lacks {', '.join(sorted(wrong))}: "
                f"{', '.join(sorted(NEEDED))} are needed, and of {', '.join(sorted(FIELDS))} any "
                "may be there"
            )
        numbers = {name: tuple(entry.get(name, ())) for name in ("places", "bits", "other")}
        found.append(Known(**entry | numbers))
    return found

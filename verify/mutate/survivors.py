"""Survivors that are known, each with the reason why no bench has to see it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from cli.errors import UserError

from verify.mutate.netlist import Mutant

LIST = Path(__file__).with_name("survivors.toml")
TEXTS, NUMBERS = ("at", "wire", "module"), ("places", "bits", "by")


@dataclass(frozen=True)
class Known:
    """One entry: the mutants that it stands for have all that it names.

    Attributes
    ----------
    unit, why
        Of which unit, and why it may survive.
    at
        What a source line of its cell does: file.signal makes it, file.signal.eq drives it, with
        names of what it is driven by behind it where that matters.
    wire, places
        Names in the netlist (`*` for any part), and bits of them.
    module, cell, port, bits
        Modules (`*` again), a part of the cell's name, its port, bits of the port.
    mode, by
        The mode, and bits of the port that decide whether they are inverted.
    same
        No allowed input shows it, as the reason says: every one was played, or none sets the bit.
    """

    unit: str
    why: str
    at: tuple[str, ...] = ()
    wire: tuple[str, ...] = ()
    module: tuple[str, ...] = ()
    cell: str = ""
    mode: str = ""
    port: str = ""
    same: bool = False
    places: tuple[int, ...] = ()
    bits: tuple[int, ...] = ()
    by: tuple[int, ...] = ()

    def covers(self, unit: str, mutant: Mutant) -> bool:
        """Whether this is one of its mutants."""
        wire, _, place = mutant.wire.removesuffix("]").rpartition("[")
        return (
            self.unit == unit
            and (not self.at or any(map(self._at, mutant.signals)))
            and _named(mutant.module, self.module)
            and self.cell in mutant.cell
            and self.mode in ("", mutant.mode)
            and self.port in ("", mutant.port)
            and _named(wire, self.wire)
            and (not self.places or place in map(str, self.places))
            and (not self.bits or mutant.bit in self.bits)
            and (not self.by or mutant.other in self.by)
        )

    def _at(self, signal: str) -> bool:
        """Whether one of `at` says this, or less: `x.sum.eq a` also stands for `x.sum.eq a b`."""
        what, *read = signal.split()
        said = [one.split() for one in self.at]
        return any(first == what and set(names) <= set(read) for first, *names in said)


def _named(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


FIELDS = {field.name for field in fields(Known)} - {"unit"}


def known(path: Path = LIST) -> list[Known]:
    """The entries of a list.

    Raises
    ------
    ValueError
        The file is no TOML, or an entry lacks its reason, has a field too many or bits that are
        none.
    """
    try:
        units: dict[str, list[dict[str, Any]]] = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}: it must hold lists of entries by unit") from None
    found = []
    for unit, entries in units.items():
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise UserError(f"{path}: {unit} is no list of entries: write {unit} = [{{ ... }}]")
        for number, entry in enumerate(entries, 1):
            wrong = entry.keys() - FIELDS | {"why"} - entry.keys()
            if wrong:
                raise UserError(
                    f"{path}: entry {number} of {unit} has too much or lacks "
                    f"{', '.join(sorted(wrong))}: why is needed, and of "
                    f"{', '.join(sorted(FIELDS))} any may be there"
                )
            texts = {
                name: (entry[name],) if isinstance(entry[name], str) else tuple(entry[name])
                for name in TEXTS
                if name in entry
            }
            try:
                numbers = {name: _numbers(entry[name]) for name in NUMBERS if name in entry}
            except ValueError as error:
                raise UserError(
                    f"{path}: entry {number} of {unit}: {error}: write bits as 3,5-8"
                ) from None
            found.append(Known(unit, **entry | texts | numbers))
    return found


def _numbers(text: str) -> tuple[int, ...]:
    """3,5-8 as numbers."""
    result: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        result += range(int(first), int(last or first) + 1)
    return tuple(result)

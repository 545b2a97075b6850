"""Numbers and counted things as every command prints them."""

from __future__ import annotations


def counted(number: int, things: str) -> str:
    """1,658 texts, 1 text; ``things`` is the plural."""
    endings = (("ies", "y"), ("ches", "ch"), ("sses", "ss"), ("s", ""), ("", ""))
    if number == 1:
        plural, single = next(pair for pair in endings if things.endswith(pair[0]))
        things = things.removesuffix(plural) + single
    return f"{number:,} {things}"


def verb(number: int, plural: str) -> str:
    """The verb of so many things: 2 differ, 1 differs; 2 have, 1 has."""
    if number != 1:
        return plural
    return {"have": "has", "are": "is"}.get(plural, f"{plural}s")

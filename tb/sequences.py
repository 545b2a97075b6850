"""Token sequences, and a file of them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.errors import UserError

_NUMBER = re.compile(r"-?[0-9]+")


@dataclass(frozen=True)
class Sequence:
    """One input of the encoder: token ids, segment ids, and the mask (1 for valid keys)."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    attend: tuple[int, ...]
    source: str


def from_file(path: Path) -> list[Sequence]:
    """The sequences of a file: a line of token ids each, or a JSON object with ids, types, attend.

    Ids are separated by blanks or commas; types default to 0 and attend to 1. Empty lines and
    lines that begin with # are skipped.

    Raises
    ------
    ValueError
        A line holds something else, or the file holds no sequence; names file and line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: give a file with a sequence a line") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text: give a file with a sequence a line") from error
    sequences = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            sequences.append(_sequence(line, f"{path}:{number}"))
        except (ValueError, TypeError, RecursionError) as error:
            raise UserError(
                f"{path}:{number}: {line[:40]!r} is no sequence: give token ids, or a JSON object "
                'such as {"ids": [101, 2023, 102], "attend": [1, 1, 1]}'
            ) from error
    if not sequences:
        raise UserError(f"{path}: holds no sequence: give a line of token ids")
    return sequences


def _sequence(line: str, source: str) -> Sequence:
    if line.lstrip().startswith("{"):
        given: dict[str, Any] = json.loads(line, object_pairs_hook=_once)
        if set(given) - {"ids", "types", "attend"} or not given.get("ids"):
            raise UserError("unknown keys, or no ids")
    else:
        words = line.replace(",", " ").split()
        if not all(map(_NUMBER.fullmatch, words)):  # int() takes 2_000 and digits of any script
            raise UserError("not a line of numbers")
        given = {"ids": [int(word) for word in words]}
    ids = _integers(given["ids"])
    types = _integers(given.get("types", [0] * len(ids)))
    attend = _integers(given.get("attend", [1] * len(ids)))
    return Sequence(ids, types, attend, source)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise UserError("a key twice")
    return found


def _integers(values: list[Any]) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise UserError("not a list of integers")
    return tuple(values)

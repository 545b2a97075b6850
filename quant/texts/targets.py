"""Targets in a file of texts, for models that give several labels at once, or numbers.

One column holds all of it, or each output has a column of its name. Several labels: a 1 for each
that holds and a 0 for the others. A regression: the numbers.

    several labels   a,b  a;b  a|b  ["a", "b"]  [0, 2]  [1.0, 0.0, 1.0]  []: names in any case or
                     indices, a list of floats has one for each label; in columns 0, 1, false, true
    numbers          3.5  [3.5, -1.0]: as many as the model has outputs; in columns one each

An empty field, or one that is not there, says nothing of the text. Whether labels are names or
indices quant.texts.data_label decides for a whole file, and `refuse_flags` whether lists of
integers are indices at all.
"""

import json
import re
from collections.abc import Iterable, Sequence
from math import isfinite

from cli.errors import UserError

from quant.model.spec import MULTI_LABEL
from quant.texts.data_label import INDICES, OPTION, Labels, shown, word
from quant.texts.rows import TextError, place

Targets = tuple[float, ...]

_BETWEEN = re.compile(r"[,;|]")
_TRUTH = {"0": 0.0, "0.0": 0.0, "false": 0.0, "1": 1.0, "1.0": 1.0, "true": 1.0}
_FLAGS = {"0", "1", "0.0", "1.0"}


def numbers_of(value: object, names: Sequence[str]) -> Targets | None:
    """The numbers that one field holds; None where it is empty.

    Raises ValueError that goes on "is ...".
    """
    if not word(value):
        return None
    found = _list(value)
    numbers = [value] if found is None else found
    if len(numbers) != len(names):
        raise UserError(
            f"is {shown(value)}, {_counted(len(numbers), 'number')}: the model gives {len(names)} "
            f"({', '.join(names)[:200]})"
        )
    return tuple(_number(number) for number in numbers)


def of_fields(values: Sequence[object], columns: Sequence[str], task: str) -> Targets | None:
    """The targets that a field each holds; None where all are empty.

    Raises ValueError that names the column.
    """
    empty = [value is None or not str(value).strip() for value in values]
    if all(empty):
        return None
    targets = []
    for value, column, missing in zip(values, columns, empty):
        try:
            if missing:
                raise UserError("is empty, though other outputs of the text are not")
            targets.append(_truth(value) if task == MULTI_LABEL else _number(value))
        except ValueError as error:
            raise UserError(f"{column!r} {error}") from None
    return tuple(targets)


def labels_of(value: object, labels: Labels) -> Targets | None:
    """A 1 for each label that one field holds; None where it is empty.

    Raises ValueError that goes on "is ...".
    """
    if not word(value):
        return None
    names = labels.names or ()
    if flags := _flags(value):
        if len(flags) != len(names) or not set(flags) <= {0.0, 1.0}:
            raise UserError(
                f"is {shown(value)}: a list of floats must hold a 0.0 or 1.0 for each of the "
                f"{len(names)} labels; of the indices of those that hold, write integers"
            )
        return tuple(flags)
    targets = [0.0] * len(names)
    for item in items(value, labels):
        index = labels.index(item)
        if index is None:
            raise UserError(f"is {shown(value)}, with an empty label: leave it out")
        if targets[index]:
            raise UserError(f"is {shown(value)}, where {names[index]} is twice")
        targets[index] = 1.0
    return tuple(targets)


def items(value: object, labels: Labels) -> list[object]:
    """The labels that one field names, not yet looked at. Raises as `labels_of`."""
    if not word(value) or _flags(value):
        return []
    found = _list(value)
    if found is not None:
        return found
    whole = word(value)
    return [whole] if labels.by_name(whole) is not None else list(_BETWEEN.split(whole))


def refuse_flags(labels: Labels, fields: Iterable[tuple[int, Sequence[object]]]) -> None:
    """Raises TextError where each list of a file could as well be a 0 or 1 for each label.

    fields
        Line and `items` of each. That can only be where there are one or two labels: longer lists
        of zeros and ones have one of them twice, which no list of indices has.
    """
    count, first = len(labels.names or ()), ""
    if count > 2 or labels.are is not None:
        return
    for line, found in fields:
        if not found:
            continue
        if len(found) != count or not {word(item) for item in found} <= _FLAGS:
            return
        first = first or f"{place(labels.path, line)}: the labels {shown(list(found))}"
    if first:
        raise TextError(
            f"{first} could be indices or a 0 or 1 for each of {_counted(count, 'label')}, as all "
            f"of the file: write the latter with decimals, [1.0, 0.0]; of indices give {OPTION} "
            f"{INDICES}"
        )


def _flags(value: object) -> list[float]:
    """A list of floats; empty for anything else."""
    found = _list(value) or []
    return [x for x in found if isinstance(x, float)] * all(isinstance(x, float) for x in found)


def _list(value: object) -> list[object] | None:
    """A list, or the one that a string holds as JSON; None for no list."""
    if isinstance(value, str) and value.strip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise UserError(f"is {shown(value)}, no JSON list") from None
    return list(value) if isinstance(value, list) else None


def _number(value: object) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        if isinstance(value, str) and ("_" in value or not value.isascii()):
            raise ValueError  # Python would take 1_000 and the digits of any script
        number = float(value) if isinstance(value, int | float) else float(str(value))
    except (ValueError, OverflowError):
        raise UserError(f"is {shown(value)}, not a number") from None
    if not isfinite(number):
        raise UserError(f"is {shown(value)}, not a finite number")
    return number


def _truth(value: object) -> float:
    word = str(value).strip().lower()
    if word not in _TRUTH:
        raise UserError(f"is {shown(value)}, not one of 0, 1, false, true")
    return _TRUTH[word]


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"

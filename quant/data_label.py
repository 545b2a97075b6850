"""The class that a label in a file names."""

import re
from collections.abc import Sequence

INDEX = re.compile(r"([0-9]+)(\.0*)?")
LARGEST_INDEX = 4095


def label_index(value: object, names: Sequence[str] | None) -> int | None:
    """The class that a label names; None for none. Raises ValueError that goes on "is ..."."""
    found = word(value)
    if not found:
        return None
    if names is not None and not isinstance(value, bool):
        if found in names:
            return list(names).index(found)
        same = [i for i, name in enumerate(names) if name.casefold() == found.casefold()]
        if len(same) == 1:
            return same[0]
    allowed = "an index from 0" if names is None else f"one of {', '.join(names)} or an index"
    match = INDEX.fullmatch(found)
    if isinstance(value, bool) or match is None:
        raise ValueError(f"is {shown(value)}, not {allowed}")
    index = int(match[1])
    limit = LARGEST_INDEX + 1 if names is None else len(names)
    if index >= limit:
        raise ValueError(f"is {index}: an index must be at least 0 below {limit}")
    return index


def word(value: object) -> str:
    return "" if value is None else str(value).strip()


def shown(value: object) -> str:
    return "missing" if value is None else repr(value)[:60]

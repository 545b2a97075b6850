"""Tables of cases of which the first are quick; docs/verification.md says what the tiers hold."""

import sys
from collections.abc import Iterable
from typing import Any

import pytest


def quick(cases: Iterable[Any], count: int = 1, thorough: int | None = None) -> list[Any]:
    """The cases for `parametrize`: the first `count` as they are, the others marked thorough.

    thorough
        So many of the others; the rest are slow.
    """
    ends = count + thorough if thorough is not None else sys.maxsize
    return [
        case
        if place < count
        else pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=pytest.mark.thorough if place < ends else pytest.mark.slow,
        )
        for place, case in enumerate(cases)
    ]

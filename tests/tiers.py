"""Tables of cases of which the first are quick; docs/verification.md says what the tiers hold."""

from collections.abc import Iterable
from typing import Any

import pytest


def quick(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """The cases for `parametrize`: the first `count` as they are, the others marked slow."""
    return [
        case
        if place < count
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for place, case in enumerate(cases)
    ]

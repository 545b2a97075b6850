"""The trace: every named intermediate of a run (names in docs/numerics.md section 9)."""

from collections.abc import Callable
from typing import Any

import numpy as np

Trace = dict[str, np.ndarray] | None
Show = Callable[[str, Any], object]
"""Called with the name and the value of each intermediate, in the order of the computation."""


def unseen(name: str, value: Any) -> None:
    """Keep nothing."""

"""The trace: every named intermediate of a run (names in docs/numerics.md section 9)."""

import numpy as np

Trace = dict[str, np.ndarray] | None


def record(trace: Trace, name: str, value: np.ndarray) -> np.ndarray:
    """Keep value under name when a trace is wanted; returns value."""
    if trace is not None:
        trace[name] = value
    return value

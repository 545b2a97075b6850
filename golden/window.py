"""Attention windows: which keys a query sees by distance alone.

Sliding windows are those of Longformer (Beltagy et al., 2020); causal attention, which sees no key
behind the query, is that of GPT and of CLIP's text encoder (Radford et al., 2021).
"""

import numpy as np

from golden.model import Window


def sides(window: Window | None, most: int) -> tuple[int, int]:
    """Before and after, `most` of either where it is more or without a limit."""
    given = (None, None) if window is None else (window.before, window.after)
    before, after = (most if side is None else min(side, most) for side in given)
    return before, after


def in_window(window: Window | None, tokens: int) -> np.ndarray:
    """-before <= k - q <= after, bool [L, L], a row a query; all True without a window."""
    place = np.arange(tokens)
    distance = place[None, :] - place[:, None]
    before, after = sides(window, tokens)
    return (distance >= -before) & (distance <= after)

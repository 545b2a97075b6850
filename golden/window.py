"""Attention windows: which keys a query sees by distance alone.

Sliding windows are those of Longformer (Beltagy et al., 2020); causal attention, which sees no key
behind the query, is that of GPT and of CLIP's text encoder (Radford et al., 2021).
"""

import numpy as np

from golden.model import Window


def in_window(window: Window | None, tokens: int) -> np.ndarray:
    """-before <= k - q <= after, bool [L, L], a row a query; all True without a window."""
    place = np.arange(tokens)
    distance = place[None, :] - place[:, None]
    seen = np.ones((tokens, tokens), bool)
    if window is not None and window.before is not None:
        seen &= distance >= -window.before
    if window is not None and window.after is not None:
        seen &= distance <= window.after
    return seen

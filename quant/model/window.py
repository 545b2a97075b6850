"""Windows of the layers: which keys a query sees, by their distance alone (golden.window)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.model import Window
from golden.window import in_window

CAUSAL = Window(None, 0)
"""A query sees its own key and those before it."""

Windows = tuple[Window | None, ...]
"""Of each layer; () where no layer has one."""


def within(scores: NDArray[Any], window: Window | None) -> NDArray[Any]:
    """Scores [heads, L, L] with those that a query does not see replaced by that of its own key."""
    if window is None:
        return scores
    own = np.diagonal(scores, axis1=-2, axis2=-1)[..., None]
    found: NDArray[Any] = np.where(in_window(window, scores.shape[-1]), scores, own)
    return found


def said(windows: Windows) -> str:
    """The windows in words: "layers 0, 2: 3 keys before and 0 behind"; "" where there is none."""
    parts = []
    for window in dict.fromkeys(windows):
        places = [str(i) for i, one in enumerate(windows) if one == window]
        alone = len(places) == len(windows)
        layers = f"layer{'s' if len(places) > 1 else ''} {', '.join(places)}"
        parts.append(f"{'all layers' if alone else layers}: {_said(window)}")
    return "; ".join(parts)


def _said(window: Window | None) -> str:
    if window is None:
        return "every key"
    if window == CAUSAL:
        return "keys up to the query's own"
    sides = ("any" if side is None else str(side) for side in (window.before, window.after))
    return "{} keys before and {} behind the query's own".format(*sides)

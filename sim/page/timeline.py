"""The timeline: lanes of units over cycles as SVG.

In a column of the picture that stands for several cycles the heights are their shares: work at the
bottom, then waiting, a third as high; nothing to do stays empty. No cycle is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cli.page.charts import ticks

import numpy as np
from markupsafe import Markup, escape

from sim.activity import Kind, Lane, Operation

#: From the bottom of a column to its top.
ORDER = (Kind.WORK, Kind.OTHER, Kind.WAIT)
#: How high a column is whose cycles are all of that kind.
HEIGHTS = np.array([1.0, 1.0, 0.34])
LABELS, WIDTH, ROW, BAR, BAND = 112, 1000, 30, 22, 26
LETTER = 6.4
"""Width of a letter."""
LAYERS = 6
"""Layers in a window from which on a band is a layer, not an operation."""


def shares(each: np.ndarray, kinds: Sequence[Kind], edges: np.ndarray) -> np.ndarray:
    """Share of the cycles of each column in the kinds of ORDER: float [3, columns].

    edges
        Cycles, increasing: column i is edges[i] to edges[i + 1].
    """
    number = np.array([ORDER.index(k) if k in ORDER else len(ORDER) for k in kinds])
    part = number[each[edges[0] : edges[-1]]]
    place = edges - edges[0]
    result = np.empty((len(ORDER), len(edges) - 1))
    for one in range(len(ORDER)):
        counted = np.append(0, np.cumsum(part == one))
        result[one] = np.diff(counted[place]) / np.diff(place)
    return result


def _area(x: np.ndarray, heights: np.ndarray, bottom: float) -> str:
    """A path of steps: column i from x[i] to x[i + 1], so high; empty where nothing is."""
    high = np.round(heights * BAR, 1)
    if not high.any():
        return ""
    change = np.flatnonzero(np.append(True, high[1:] != high[:-1]))
    path = [f"M{x[0]:.1f} {bottom:g}"]
    for begin, end in zip(change, np.append(change[1:], len(high))):
        path.append(f"V{bottom - high[begin]:.1f}H{x[end]:.1f}")
    return "".join(path) + f"V{bottom:g}Z"


def _text(x: float, y: float, said: object, anchor: str = "middle", kind: str = "") -> str:
    of, at = f' class="{kind}"' if kind else "", x if isinstance(x, int) else f"{x:.1f}"
    return f'<text{of} x="{at}" y="{y}" text-anchor="{anchor}">{escape(said)}</text>'


@dataclass(frozen=True)
class Window:
    """The cycles first to end - 1, and their places in the picture."""

    first: int
    end: int

    def x(self, cycle: float) -> float:
        return LABELS + (cycle - self.first) / (self.end - self.first) * WIDTH


def picture(
    lanes: Sequence[Lane], found: Sequence[Operation], window: Window, title: str, most: int = WIDTH
) -> Markup:
    """All lanes over a window as one <svg> of `most` columns, the array's operations above them."""
    height = BAND + ROW * len(lanes) + 26
    columns = min(most, window.end - window.first)
    edges = np.linspace(window.first, window.end, columns + 1).astype(np.int64)
    x = np.array([window.x(edge) for edge in edges])
    body, base = _operations(found, window), height - 22
    for tick in ticks(window.first, window.end, 8):
        if tick == int(tick):
            at = window.x(tick)
            body.append(f'<path class="tick" d="M{at:.1f} {BAND - 2}V{base}"/>')
            inside = min(at, LABELS + WIDTH - 24)
            body.append(_text(inside, base + 15, f"{int(tick):,}", kind="soft"))
    for place, one in enumerate(lanes):
        bottom = BAND + ROW * place + BAR + 4
        body.append(f'<path class="base" d="M{LABELS} {bottom}h{WIDTH}"/>')
        body.append(_text(LABELS - 8, bottom - 6, one.name, "end"))
        part = shares(one.each, [state.kind for state in one.states], edges)
        stacked = np.cumsum(part * HEIGHTS[:, None], axis=0)
        for kind, heights in reversed(list(zip(ORDER, stacked))):
            if path := _area(x, heights, bottom):
                body.append(f'<path class="{kind.value}" d="{path}"/>')
    full = LABELS + WIDTH + 8
    return Markup(
        f'<svg class="timeline" viewBox="0 0 {full} {height}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(body)}</svg>'
    )


def bands(found: Sequence[Operation], window: Window) -> list[Operation]:
    """The operations in a window; of LAYERS layers or more one for each layer."""
    inside = [one for one in found if one.first < window.end and one.last >= window.first]
    named: dict[str, list[Operation]] = {}
    for one in inside:
        layer = re.match(r"layer\.\d+", one.name)
        named.setdefault(layer[0] if layer else one.name, []).append(one)
    if sum(name.startswith("layer.") for name in named) < LAYERS:
        return inside
    return [
        replace(some[0], name=name, last=max(one.last for one in some))
        for name, some in named.items()
    ]


def _operations(found: Sequence[Operation], window: Window) -> list[str]:
    """The band of the array's operations, each with its name or what of it finds room."""
    body = []
    for place, one in enumerate(bands(found, window)):
        left = window.x(max(one.first, window.first))
        right = window.x(min(one.last + 1, window.end))
        wide, short = right - left, one.name.removeprefix("layer.")
        body.append(
            f'<rect class="band{place % 2}" x="{left:.1f}" y="2" width="{wide:.1f}" height="18">'
            f"<title>{escape(one.name)}: cycles {one.first:,} to {one.last:,}</title></rect>"
        )
        names = [n for n in (one.name, short, short.rpartition(".")[2]) if n]
        fitting = [name for name in names if LETTER * len(name) + 6 < wide]
        if fitting:
            body.append(_text((left + right) / 2, 15, fitting[0], kind="band"))
    return body

"""Charts of all pages as inline SVG, and matrices as images. No script, no external resource.

Every function but `image` returns one <svg> element that scales to the width of its container.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating]
Shares = NDArray[Any]

COLOURS = ("#2563a8", "#c2542d", "#2e7d4f", "#7b4ba0")
# The page sets them, so that the charts follow its light and dark colours.
INK, GRID = "currentColor", "var(--grid)"
SHADE = (74, 138, 198)  # of images, with a contrast of 3 : 1 on any paper: --other of the style
DARK = "#222"  # on the light shades of a matrix
MARGIN_LEFT, MARGIN_BOTTOM, MARGIN_TOP, MARGIN_RIGHT = 54, 34, 12, 12


def _svg(width: float, height: float, body: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" style="max-width:{width:g}px" role="img" '
        f'aria-label="{escape(title)}">{"".join(body)}</svg>'
    )


def text(x: float, y: float, content: str, anchor: str = "start", size: int = 11) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{INK}">'
        f"{escape(content)}</text>"
    )


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) that cover low to high."""
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** np.floor(np.log10(raw))
    step = power * next(m for m in (1, 2, 5, 10) if m * power >= raw)
    first = np.ceil(low / step - 1e-9)
    return [float(step * k) + 0.0 for k in np.arange(first, np.floor(high / step + 1e-9) + 1)]


class Frame:
    """Axes with a grid: maps data to pixels."""

    def __init__(
        self, x: tuple[float, float], y: tuple[float, float], width: float, height: float
    ) -> None:
        self.x, self.y, self.width, self.height = x, y, width, height

    def px(self, x: float) -> float:
        span = self.width - MARGIN_LEFT - MARGIN_RIGHT
        return MARGIN_LEFT + (x - self.x[0]) / (self.x[1] - self.x[0]) * span

    def py(self, y: float) -> float:
        span = self.height - MARGIN_TOP - MARGIN_BOTTOM
        return self.height - MARGIN_BOTTOM - (y - self.y[0]) / (self.y[1] - self.y[0]) * span

    def axes(self, x_label: str, y_label: str) -> list[str]:
        body = []
        left, right = self.px(self.x[0]), self.px(self.x[1])
        top, bottom = self.py(self.y[1]), self.py(self.y[0])
        for value in ticks(*self.y):
            y = self.py(value)
            body.append(f'<path d="M{left:.1f} {y:.1f}H{right:.1f}" stroke="{GRID}"/>')
            body.append(text(left - 5, y + 4, f"{value:g}", "end", 10))
        for value in ticks(*self.x):
            x = self.px(value)
            body.append(f'<path d="M{x:.1f} {bottom:.1f}v4" stroke="{INK}"/>')
            body.append(text(x, bottom + 15, f"{value:g}", "middle", 10))
        body.append(
            f'<path d="M{left:.1f} {top:.1f}V{bottom:.1f}H{right:.1f}" fill="none" stroke="{INK}"/>'
        )
        body.append(text((left + right) / 2, self.height - 4, x_label, "middle", 11))
        body.append(
            f'<text transform="translate(11 {(top + bottom) / 2:.1f}) rotate(-90)" '
            f'text-anchor="middle" font-size="11" fill="{INK}">{escape(y_label)}</text>'
        )
        return body


def _range(values: Values) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    if low == high:
        return low - 1, high + 1
    pad = 0.04 * (high - low)
    return low - pad, high + pad


def lines(
    x: Values, series: Mapping[str, Values], x_label: str, y_label: str, step: bool = False
) -> str:
    """One curve a series over the same x; ``step`` draws the values as levels."""
    frame = Frame(
        (float(x[0]), float(x[-1])), _range(np.concatenate(list(series.values()))), 460, 240
    )
    body = frame.axes(x_label, y_label)
    for i, (name, y) in enumerate(series.items()):
        points = [(frame.px(float(a)), frame.py(float(b))) for a, b in zip(x, y)]
        path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
        for px, py in points[1:]:
            path += f"H{px:.1f}V{py:.1f}" if step else f"L{px:.1f} {py:.1f}"
        colour = COLOURS[i % len(COLOURS)]
        # The first of several is what the others should be: wide and pale, so that both are seen.
        stroke = (
            'stroke-width="5" opacity="0.45"' if i == 0 < len(series) - 1 else 'stroke-width="1.3"'
        )
        body.append(f'<path d="{path}" fill="none" stroke="{colour}" {stroke}/>')
        if len(series) > 1:
            body.append(
                f'<rect x="{MARGIN_LEFT + 10}" y="{18 + 15 * i}" width="10" height="10" '
                f'fill="{colour}"/>'
            )
            body.append(text(MARGIN_LEFT + 25, 27 + 15 * i, name))
    return _svg(460, 240, body, f"{y_label} over {x_label}")


def histogram(edges: Values, counts: Values, clip: float | None, title: str) -> str:
    """Counts on a logarithmic scale; dashed lines at the clipping points -clip and +clip."""
    heights = np.log10(np.maximum(counts, 1))
    reach = float(max(abs(edges[0]), abs(edges[-1]), clip or 0)) * 1.02
    frame = Frame((-reach, reach), (0, max(1.0, float(heights.max()) * 1.05)), 320, 150)
    body = frame.axes("", "log10 count")
    bottom = frame.py(0)
    path = f"M{frame.px(float(edges[0])):.1f} {bottom:.1f}"
    for right, height in zip(edges[1:], heights):
        path += f"V{frame.py(float(height)):.1f}H{frame.px(float(right)):.1f}"
    body.append(f'<path d="{path}V{bottom:.1f}Z" fill="{COLOURS[0]}" opacity="0.75"/>')
    if clip:
        for point in (-clip, clip):
            body.append(
                f'<path d="M{frame.px(point):.1f} {frame.py(frame.y[1]):.1f}V{bottom:.1f}" '
                f'stroke="{COLOURS[1]}" stroke-width="1.5" stroke-dasharray="4 3"/>'
            )
    return _svg(320, 150, body, title)


def heat_map(values: Values, rows: Sequence[str], columns: Sequence[str], title: str) -> str:
    """A matrix with values from 0 (white) to its largest (dark), words along both sides."""
    cell, side = 15, 84
    height, width = side + cell * len(rows), side + cell * len(columns)
    largest = float(values.max()) or 1.0
    body = []
    for i, name in enumerate(rows):
        body.append(text(side - 4, side + cell * i + 11, name, "end", 10))
    for j, name in enumerate(columns):
        x = side + cell * j + 11
        body.append(
            f'<text transform="translate({x} {side - 4}) rotate(-60)" font-size="10" '
            f'fill="{INK}">{escape(name)}</text>'
        )
    for i in range(len(rows)):
        for j in range(len(columns)):
            share = float(values[i, j]) / largest
            body.append(
                f'<rect x="{side + cell * j}" y="{side + cell * i}" width="{cell}" '
                f'height="{cell}" fill="{_shade(share)}"><title>{escape(rows[i])} to '
                f"{escape(columns[j])}: {values[i, j]:.3f}</title></rect>"
            )
    body.append(
        f'<rect x="{side}" y="{side}" width="{cell * len(columns)}" '
        f'height="{cell * len(rows)}" fill="none" stroke="{GRID}"/>'
    )
    return _svg(width + 30, height + 2, body, title)


def confusion(matrix: NDArray[np.integer], names: Sequence[str], title: str) -> str:
    """Counts and their share of the true class's row."""
    cell, side = 86, 96
    body = [text(side + cell * len(names) / 2, 12, "predicted", "middle")]
    totals = matrix.sum(axis=1)
    for i, name in enumerate(names):
        body.append(text(side + cell * (i + 0.5), 28, name, "middle"))
        body.append(text(side - 6, 34 + cell * 0.6 * (i + 0.5), name, "end"))
        for j in range(len(names)):
            share = float(matrix[i, j]) / max(1, int(totals[i]))
            x, y = side + cell * j, 34 + cell * 0.6 * i
            colour = "#fff" if share > 0.55 else DARK
            body.append(
                f'<rect x="{x}" y="{y:.1f}" width="{cell}" height="{cell * 0.6:.1f}" '
                f'fill="{_shade(share)}" stroke="#fff"/>'
            )
            body.append(
                f'<text x="{x + cell / 2}" y="{y + 24:.1f}" text-anchor="middle" font-size="14" '
                f'style="fill:{colour}">{matrix[i, j]}</text>'
                f'<text x="{x + cell / 2}" y="{y + 40:.1f}" text-anchor="middle" font-size="10" '
                f'style="fill:{colour}">{share:.1%}</text>'
            )
    body.append(text(4, 30, "true"))
    return _svg(side + cell * len(names) + 4, 38 + cell * 0.6 * len(names), body, title)


def _shade(share: float) -> str:
    low, high = (245, 248, 252), (23, 62, 112)
    mixed = [round(a + (b - a) * min(1.0, max(0.0, share))) for a, b in zip(low, high)]
    return f"#{mixed[0]:02x}{mixed[1]:02x}{mixed[2]:02x}"


def distances(apart: Values, title: str, bins: int = 41) -> str:
    """A histogram of signed distances around 0, its counts on a logarithmic scale."""
    reach = max(float(np.abs(apart).max()), 1e-9)
    counts, _ = np.histogram(apart, bins, (-reach, reach))
    heights = np.where(counts > 0, 0.6 + np.log10(np.maximum(counts, 1)), 0)
    left, width, high, bottom = 38, 280, 84, 92
    step, scale = width / bins, high / heights.max()
    path = "".join(
        f"M{left + place * step + 0.4:.1f} {bottom}v{-height * scale:.1f}h{step - 0.8:.1f}"
        f"V{bottom}Z"
        for place, height in enumerate(heights)
        if height
    )
    marks = []
    for power in range(int(np.log10(counts.max())) + 1):
        at = bottom - (0.6 + power) * scale
        marks.append(f'<path class="tick" d="M{left - 4} {at:.1f}h{width + 4}"/>')
        if power % 2 == 0:
            marks.append(
                f'<text class="soft" x="{left - 6}" y="{at + 3.5:.1f}" text-anchor="end">'
                f"{10**power:,}</text>"
            )
    for tick in ticks(-reach, reach, 6):
        at = left + width / 2 * (1 + tick / reach)
        if left + 10 < at < left + width - 10:
            marks.append(f'<path class="tick" d="M{at:.1f} {bottom}v4"/>')
            marks.append(
                f'<text class="soft" x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">'
                f"{tick:g}</text>"
            )
    return (
        f'<svg viewBox="0 0 {left + width} 112" role="img" aria-label="{escape(title)}">'
        f'{"".join(marks)}<path class="base" d="M{left} {bottom}h{width}"/>'
        f'<path class="work" d="{path}"/></svg>'
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    head = kind + content
    return struct.pack(">I", len(content)) + head + struct.pack(">I", zlib.crc32(head))


def png(shares: Shares) -> bytes:
    """A matrix [rows, columns] of shares, 0 (nothing) to 1, as a PNG (ISO/IEC 15948) of 255 levels.

    Opacity is the share, so it fits light and dark paper.
    """
    levels = np.round(np.clip(shares, 0, 1) * 255).astype(np.uint8)
    return _png(levels, _chunk(b"PLTE", bytes(SHADE) * 256) + _chunk(b"tRNS", bytes(range(256))))


def _png(levels: NDArray[np.uint8], palette: bytes = b"") -> bytes:
    """Levels [rows, columns] of a palette or of grey, or [rows, columns, 3] of colours."""
    rows, columns = levels.shape[:2]
    kind = 3 if palette else 0 if levels.ndim == 2 else 2
    lines = np.pad(levels.reshape(rows, -1), ((0, 0), (1, 0)))  # a filter byte, none, before each
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, kind, 0, 0, 0)),
            palette,
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _uri(content: bytes) -> str:
    return "data:image/png;base64," + b64encode(content).decode("ascii")


def image(shares: Shares) -> str:
    """The image of a matrix of shares as a data: URI."""
    return _uri(png(shares))


def picture(pixels: NDArray[np.uint8]) -> str:
    """Pixels [h, w] of grey, or [h, w, 3] in red, green and blue, as a data: URI."""
    return _uri(_png(pixels))

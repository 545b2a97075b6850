"""A histogram as inline SVG, and matrices as images: no script, no external resource."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SHADE = (74, 138, 198)  # of images, with a contrast of 3 : 1 on any paper: --other of the style


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) that cover low to high."""
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** np.floor(np.log10(raw))
    step = power * next(m for m in (1, 2, 5, 10) if m * power >= raw)
    first = np.ceil(low / step - 1e-9)
    return [float(step * k) + 0.0 for k in np.arange(first, np.floor(high / step + 1e-9) + 1)]


def distances(apart: NDArray[np.floating], title: str, bins: int = 41) -> str:
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
    for power in range(0, int(np.log10(counts.max())) + 1, 2):
        at = bottom - (0.6 + power) * scale
        marks.append(f'<path class="tick" d="M{left - 4} {at:.1f}h{width + 4}"/>')
        marks.append(_label(left - 6, at + 3.5, "end", f"{10**power:,}"))
    for tick in ticks(-reach, reach, 6):
        at = left + width / 2 * (1 + tick / reach)
        if left + 10 < at < left + width - 10:
            marks.append(f'<path class="tick" d="M{at:.1f} {bottom}v4"/>')
            marks.append(_label(at, bottom + 16, "middle", f"{tick:g}"))
    return (
        f'<svg viewBox="0 0 {left + width} 112" role="img" aria-label="{escape(title)}">'
        f'{"".join(marks)}<path class="base" d="M{left} {bottom}h{width}"/>'
        f'<path class="work" d="{path}"/></svg>'
    )


def _label(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text class="soft" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _uri(pixels: NDArray[np.uint8]) -> str:
    content = BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return "data:image/png;base64," + b64encode(content.getvalue()).decode("ascii")


def image(shares: NDArray[Any]) -> str:
    """A matrix [rows, columns] of shares, 0 (nothing) to 1, as a data: URI.

    Opacity is the share, so it fits light and dark paper.
    """
    pixels = np.empty((*shares.shape, 4), np.uint8)
    pixels[..., :3] = SHADE
    pixels[..., 3] = np.round(np.clip(shares, 0, 1) * 255)
    return _uri(pixels)


def picture(pixels: NDArray[np.uint8]) -> str:
    """Pixels [h, w] of grey, or [h, w, 3] in red, green and blue, as a data: URI."""
    return _uri(pixels)

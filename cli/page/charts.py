"""A histogram as inline SVG, and matrices as images: no script, no external resource."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating]
Shares = NDArray[Any]

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

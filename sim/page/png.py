"""A matrix of shares as a PNG (ISO/IEC 15948): opacity is the share, so it fits light and dark."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

import numpy as np

COLOUR = (74, 138, 198)
"""Its contrast is 3 : 1 or more on light and on dark paper (the page's --other)."""


def _chunk(kind: bytes, content: bytes) -> bytes:
    head = kind + content
    return struct.pack(">I", len(content)) + head + struct.pack(">I", zlib.crc32(head))


def png(shares: np.ndarray) -> bytes:
    """The image of a matrix [rows, columns] of shares, 0 (nothing) to 1, in 255 levels."""
    rows, columns = shares.shape
    levels = np.round(np.clip(shares, 0, 1) * 255).astype(np.uint8)
    lines = np.pad(levels, ((0, 0), (1, 0)))  # a filter byte, none, before every line
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", bytes(COLOUR) * 256),
            _chunk(b"tRNS", bytes(range(256))),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def uri(shares: np.ndarray) -> str:
    """The image as a data: URI."""
    return "data:image/png;base64," + b64encode(png(shares)).decode("ascii")

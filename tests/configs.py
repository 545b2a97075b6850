"""The accelerators that tests simulate: one build each, which all that play on it share."""

from __future__ import annotations

from typing import Any

from rtl.interface.config import Config

#: So small that batches of short texts reach the ends of every memory.
ROOM: dict[str, int] = {"tokens": 40, "hidden": 40, "ffn": 64, "labels": 16}
#: Every option of the hardware, none of them used by every model.
EVERY: dict[str, Any] = {
    **dict.fromkeys(("precise", "gated"), True),
    "bias_heads": 4,
    "rotary_pairs": 64,
}

CONFIGS: dict[str, Config] = {
    "4": Config(lanes=4),  # the one of the tests that are not slow
    "8": Config(lanes=8),
    "16": Config(lanes=16),
    "32": Config(lanes=32, hidden=256),
    "64": Config(lanes=64, hidden=256),
    "8, long texts": Config(lanes=8, tokens=512),
    "4 precise": Config(lanes=4, precise=True, **ROOM),
    "4, short": Config(lanes=4, **ROOM),
    "4 gated": Config(lanes=4, gated=True, **ROOM),
    "4x8 rotary": Config(lanes=4, columns=8, rotary_pairs=16, **ROOM),
    "4x8 precise gated": Config(lanes=4, columns=8, precise=True, gated=True, **ROOM),
    "4x16": Config(lanes=4, columns=16, **ROOM),
    "4x16 biased": Config(lanes=4, columns=16, bias_heads=5, **ROOM),
    "4x32 precise": Config(lanes=4, columns=32, precise=True, **ROOM),
    "4 every": Config(lanes=4, **EVERY),
    "4x16 every": Config(lanes=4, columns=16, **EVERY, **ROOM),
    "8x32 every": Config(lanes=8, columns=32, **EVERY, **ROOM),
}

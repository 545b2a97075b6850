"""Token sequences."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sequence:
    """One input of the encoder: token ids, segment ids, and the mask (1 for valid keys)."""

    ids: tuple[int, ...]
    types: tuple[int, ...]
    attend: tuple[int, ...]
    source: str

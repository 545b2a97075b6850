"""The payload of rotary positions."""

from __future__ import annotations

import numpy as np
import pytest

from golden.model import Rotary
from rtl.compile.packing import rotary_planes


def loaded(
    tables: list[Rotary], lanes: int, row_tiles: int, row_words: int
) -> list[tuple[int, list[int]]]:
    """Addresses and words of the memory by the payload: of each channel its row tiles."""
    payload = np.frombuffer(rotary_planes(tables, lanes, row_tiles), np.uint8).astype(np.int32)
    low, high = payload.reshape(-1, 2, lanes).swapaxes(0, 1)
    words = (low + (high << 8)).astype(np.int16).tolist()
    return [
        (place // row_tiles * row_words + place % row_tiles, word)
        for place, word in enumerate(words)
    ]


@pytest.mark.parametrize("row_tiles", [1, 2, 4])
def test_a_payload_for_fewer_and_for_more_tokens_than_the_model_has(row_tiles: int) -> None:
    """By places: cos of token t and pair i is 100 t + i, sin the negative of it."""
    values = 100 * np.arange(6)[:, None] + np.arange(5)
    tables = [Rotary(x.astype(np.int16), -x.astype(np.int16)) for x in np.split(values, [2], 1)]
    found = dict(loaded(tables, 4, row_tiles, 4))
    assert len(found) == 10 * row_tiles
    for channel in range(10):
        i, sign = channel // 2, (1, -1)[channel % 2]
        tokens = [x for row in range(row_tiles) for x in found[4 * channel + row]]
        wanted = [sign * (100 * t + i) if t < 6 else 0 for t in range(4 * row_tiles)]
        assert tokens == wanted

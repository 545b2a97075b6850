"""Which sequences go side by side through one inference, by their lengths alone."""

from __future__ import annotations

from collections.abc import Sequence

from rtl.interface.config import ceil_div


def first_fit(
    lengths: Sequence[int], lanes: int, row_tiles: int, tokens: int | None = None
) -> list[list[int]]:
    """Their places in `lengths`, by batch: first fit, the longest first.

    Each sequence takes whole row tiles of `lanes` tokens and goes into the first batch that has
    enough of its `row_tiles` left, and of its `tokens` where a batch may not have any number. One
    that takes more than there are is a batch alone. Batches are in the order of their first
    sequence, the sequences of each in their own.
    """
    tiles = [ceil_div(length, lanes) for length in lengths]
    words = [0] * len(lengths) if tokens is None else lengths
    batches: list[list[int]] = []
    left: list[tuple[int, int]] = []
    before, chosen = (0, 0), 0
    for place in sorted(range(len(lengths)), key=lambda place: (-tiles[place], -words[place])):
        needed = tiles[place], words[place]
        # A batch that had no room for one of this size has none for the next.
        chosen = chosen if needed == before else 0
        before = needed
        while chosen < len(left) and any(n > room for n, room in zip(needed, left[chosen])):
            chosen += 1
        if chosen == len(batches):
            batches.append([])
            left.append((max(row_tiles, needed[0]), max(tokens or 0, needed[1])))
        batches[chosen].append(place)
        left[chosen] = left[chosen][0] - needed[0], left[chosen][1] - needed[1]
    return sorted(map(sorted, batches))

"""When LayerNorm reads its row tiles: two passes as events, around a port that is taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rtl.datapath.layernorm import LayerNorm, constants_ready


class Taken:
    """The cycles in which the epilogue has the ports of X16.

    intervals: (first, end) of cycles, end excluded, in any order; they may overlap.
    """

    def __init__(self, intervals: Iterable[tuple[int, int]]) -> None:
        self.intervals: list[tuple[int, int]] = []
        for first, end in sorted(intervals):
            if self.intervals and first <= self.intervals[-1][1]:
                before = self.intervals.pop()
                first, end = before[0], max(end, before[1])
            self.intervals.append((first, end))
        self._at = 0  # intervals before this one are over

    def reads(self, cycle: int, count: int) -> tuple[int, int]:
        """First and last of the `count` free cycles from `cycle` on.

        `cycle` may not decrease from call to call.
        """
        begin = last = None
        while True:
            while self._at < len(self.intervals) and self.intervals[self._at][1] <= cycle:
                self._at += 1
            more = self._at < len(self.intervals)
            free_until = self.intervals[self._at][0] if more else cycle + count
            if free_until > cycle:
                begin = cycle if begin is None else begin
                now = min(count, free_until - cycle)
                count -= now
                last = cycle + now - 1
                if count == 0:
                    return begin, last
            cycle = self.intervals[self._at][1]


def normalise(
    start: int, available: Sequence[int], channels: int, lanes: int, taken: Taken
) -> list[int]:
    """In which cycle each row tile is written, seen from the cycle after its last word.

    The start pulse comes in cycle `start`, row tiles may be read from the cycles `available` on,
    and the read port is not LayerNorm's when it is `taken`. The policy is that of
    `rtl.datapath.layernorm`: when the port gets free, pass 2 of the oldest tile if its constants
    are ready, else pass 1 of the next tile if it is available and fewer than two tiles are between
    the beginnings of their passes.
    """
    written: list[int] = []
    summed: list[int] = []  # last read of pass 1 of each tile
    free = start + 1
    before = 0  # first read of the latest pass 2
    tiles = len(available)
    while len(written) < tiles:
        norm = sums = None
        if len(summed) > len(written):
            norm = max(free, constants_ready(lanes, summed[len(written)], before))
        if len(summed) < tiles and len(summed) - len(written) < 2:
            sums = max(free, available[len(summed)])
        if norm is not None and (sums is None or norm <= sums):
            before, free = taken.reads(norm + 1, channels)
            written.append(free + LayerNorm.latency + 1)
        else:
            assert sums is not None
            _, free = taken.reads(sums + 1, channels)
            summed.append(free)
    return written

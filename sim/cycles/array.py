"""When the array computes its tiles: sequencer, issuer and epilogue as events."""

from __future__ import annotations

from collections.abc import Iterable

from rtl.datapath.schedule import WRITTEN
from tb.trace import CAUSES


class Array:
    """Sequencer, issuer and epilogue: tiles in order."""

    def __init__(self) -> None:
        self.drain = 0  # cycles of the latest tile's columns in the epilogue
        self.made = 0  # cycle in which the sequencer can hand over its next tile
        self.started = (0, 0)  # cycles before the first operands of the latest two tiles
        self.last = 0  # of the latest tile's operands
        self.drains = 0  # last operand of the latest tile that is drained
        self.busy = False  # there was a tile
        self.tally = dict.fromkeys(CAUSES, 0)
        self.first: int | None = None
        self.active = 0

    @property
    def quiet(self) -> int:
        """First cycle in which all tiles so far are written and the sequencer knows."""
        return self.last + WRITTEN + self.drain if self.busy else 0

    def begin(self, queued: int, fence: bool, setup: int) -> int:
        """Take the operation that waits from cycle `queued` on; returns the cycle of it.

        With `fence` the array must be quiet. The first tile is made `setup` cycles later.
        """
        taken = max(queued, self.made, self.quiet if fence else 0)
        self.made = taken + setup
        self.tally = dict.fromkeys(CAUSES, 0)
        self.first = None
        self.active = 0
        return taken

    def tile(
        self,
        length: int,
        conditions: Iterable[tuple[str, int]] = (),
        passed: int = 0,
        *,
        drain: int,
        low: bool = False,
    ) -> int:
        """Start a tile of `length` operands; returns the cycle of its last one.

        Its `conditions` are (cause of the stall, first cycle in which it is over), in the issuer's
        order; the walker passes `passed` row tiles behind it, a cycle each; its columns take
        `drain` cycles to drain, but those of the first of two passes (`low`) are not drained.
        """
        earlier, latest = self.started
        made = max(self.made, earlier + 1)  # one tile is offered and one waits behind it
        self.made = made + 1 + passed
        cycle = self.last
        drained = self.drains + self.drain - length if self.busy and not low else 0
        for cause, over in (("idle", made + 1), *conditions, ("drain", drained)):
            if over > cycle:
                self.tally[cause] += over - cycle
                cycle = over
        self.started, self.busy = (latest, cycle), True
        if self.first is None:
            self.first = cycle + 1
        self.active += length
        self.last = cycle + length
        if not low:
            self.drains, self.drain = self.last, drain
        return self.last

    def tiles(self, count: int, length: int, *, drain: int) -> None:
        """So many tiles that are alike and wait for nothing but the array.

        A tile depends on the times before it only as far as they lie apart. When one leaves them as
        far apart as it found them, all that follow are like it.
        """
        for left in range(count - 1, -1, -1):
            found, last, stalls = self._apart(), self.last, dict(self.tally)
            self.tile(length, drain=drain)
            if self._apart() == found:
                later, (earlier, latest) = left * (self.last - last), self.started
                self.started = earlier + later, latest + later
                self.made, self.last = self.made + later, self.last + later
                self.drains += later
                self.active += left * length
                for cause, cycles in stalls.items():
                    self.tally[cause] += left * (self.tally[cause] - cycles)
                break

    def _apart(self) -> tuple[int, ...]:
        """The times on which a tile depends, before the latest operand; and what drains."""
        times = (self.made, *self.started, self.drains)
        return (*(self.last - time for time in times), self.drain, self.busy)

"""A memory behind AXI4 read channels, and what a master may do on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rtl.dma.bus import Bus

OKAY, SLVERR = 0, 2


@dataclass
class AxiMemory:
    """Answers bursts in order: one taken in cycle t from cycle t + latency on, a beat a cycle.

    Parameters
    ----------
    byte
        What lies at an address; an address that raises KeyError is answered with SLVERR.
    rest
        Share of the cycles in which an address is not taken, and in which no beat is given.
    """

    bus: Bus
    byte: Callable[[int], int]
    latency: int = 1
    rest: float = 0.0
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    waiting: tuple[int, ...] | None = None
    beats: deque[tuple[int, int, int, int]] = field(default_factory=deque)  # from, data, resp, last
    cycle: int = 0
    taken: list[tuple[int, int]] = field(default_factory=list)  # address, beats
    ready: int = 1
    offered: bool = False

    def drive(self) -> dict[str, int]:
        """The inputs of the master in this cycle."""
        self.ready = int(self.rng.random() >= self.rest)
        if not self.offered:
            there = bool(self.beats) and self.beats[0][0] <= self.cycle
            self.offered = there and self.rng.random() >= self.rest
        driven = {"arready": self.ready, "rvalid": int(self.offered), "rid": 0}
        if self.offered:
            _, data, resp, last = self.beats[0]
            driven |= {"rdata": data, "rresp": resp, "rlast": last}
        return driven

    def step(self, shown: dict[str, int]) -> None:
        """End a cycle; `shown` has the master's outputs."""
        size = self.bus.data_bytes
        assert shown["rready"] == 1, "beats that were asked for are not taken"
        if self.offered:
            self.beats.popleft()
            self.offered = False
        names = ("araddr", "arlen", "arsize", "arburst", "arid", "arlock", "arcache", "arprot")
        address = tuple(shown[name] for name in names) if shown["arvalid"] else None
        if self.waiting is not None:
            assert address == self.waiting, "an address was withdrawn or changed"
        self.waiting = None if self.ready else address
        if address is not None and self.ready:
            start, length = address[0], address[1] + 1
            assert address[2:] == (self.bus.shift, 1, 0, 0, 3, 0)
            assert start % size == 0
            assert 1 <= length <= self.bus.burst
            end = start + length * size - 1
            assert start >> 12 == end >> 12, f"{start:#x}..{end:#x} crosses 4 KiB"
            self.taken.append((start, length))
            for i in range(length):
                data, resp = self._read(start + i * size)
                due = self.cycle + self.latency + i
                self.beats.append((due, data, resp, int(i == length - 1)))
            open_ = sum(last for *_, last in self.beats)
            assert open_ <= self.bus.outstanding, f"{open_} bursts are under way"
        self.cycle += 1

    def _read(self, address: int) -> tuple[int, int]:
        try:
            data = bytes(self.byte(address + i) for i in range(self.bus.data_bytes))
        except KeyError:
            return 0, SLVERR
        return int.from_bytes(data, "little"), OKAY

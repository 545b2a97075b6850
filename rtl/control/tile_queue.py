"""The tiles between sequencer and issuer, and whether their row tiles are normalised."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.stream import Signature as Stream

from rtl.interface.config import Config
from rtl.interface.ports.datapath import NormProgress
from rtl.interface.tile import NORM_INDEX_BITS, Tile
from rtl.primitives.members import In, Out, Unit


class TileQueue(Unit):
    """A stream of tiles cut by registers in both directions, a tile a cycle.

    What the issuer says in a cycle reaches the sequencer in the next; the tile that comes meanwhile
    waits in the second place. The issuer's decision comes late in the cycle, so it reaches a few
    bits only: the sequencer fills the places in turn, the issuer empties them in turn, and each
    place knows of its own tile whether it is normalised.

    Attributes
    ----------
    latency
        Cycles from i to o: 1, while o is taken.
    capacity
        Tiles that it holds: 2.
    """

    latency = 1
    capacity = 2

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            i=In(Stream(Tile(config))),
            progress=In(NormProgress(config)),
            o=Out(Stream(Tile(config))),
            normalised=Out(
                1, "The row tile that the tile of `o` reads was normalised by the cycle before."
            ),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        tail, head, full = (Signal(name=name) for name in ("tail", "head", "full"))
        put = self.i.valid & ~full
        stays = self.o.valid & ~self.o.ready
        m.d.comb += self.i.ready.eq(~full)
        m.d.sync += [
            tail.eq(tail ^ put),
            head.eq(head ^ (self.o.valid & self.o.ready)),
            full.eq(stays & (full | put)),
            self.o.valid.eq(full | put | stays),
        ]
        coming = self._normalised(m, self.i.payload, "coming")
        places, known = [], []
        for index in range(self.capacity):
            place = Signal(Tile(self.config), name=f"place_{index}", reset_less=True)
            normalised = Signal(name=f"normalised_{index}")
            m.d.sync += normalised.eq(self._normalised(m, place, f"waiting_{index}"))
            with m.If(~full & (tail == index)):
                m.d.sync += [place.eq(self.i.payload), normalised.eq(coming)]
            places.append(place)
            known.append(normalised)
        m.d.comb += [
            self.o.payload.eq(Mux(head, places[1], places[0])),
            self.normalised.eq(Mux(head, known[1], known[0])),
        ]
        return m

    def _normalised(self, m: Module, tile: data.View, name: str) -> Value:
        behind = Signal(NORM_INDEX_BITS, name=f"{name}_behind")
        m.d.comb += behind.eq(tile.norm_index - self.progress.norms)
        return (behind == 0) | ((behind == 1) & (self.progress.rows > tile.row))

"""The attention window: which queries of a row tile see a key, by its distance alone."""

from amaranth.hdl import Module, Signal, signed

from rtl.interface.config import Config
from rtl.interface.ports.tiles import WindowSides
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.pipeline import register


class Window(Unit):
    """o[j] = -before <= k - (q + j) <= after, where q is the query of lane 0.

    docs/numerics.md section 6. Key k is `column` of its row tile, which is `apart` row tiles behind
    that of the queries, so k - q = apart N + column. One key a cycle, no valid. Multipliers: 0.

    Attributes
    ----------
    latency
        Cycles from apart and column to o: 2.
    """

    latency = 2

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            sides=In(WindowSides(config.tokens)),
            apart=In(
                range(config.bias_head_words), "Modulo a power of two, twice the row tiles or more."
            ),
            column=In(range(config.lanes)),
            o=Out(config.lanes, "A bit for each lane."),
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bits = len(self.apart) + len(self.column)
        distance = Signal(signed(bits))
        m.d.comb += distance.eq(self.column + (self.apart << len(self.column)))
        # Lanes first to last see the key.
        first = register(m, distance - self.sides.after, "first_lane")
        last = register(m, distance + self.sides.before, "last_lane")
        for lane in range(self.config.lanes):
            seen = (first <= lane) & (last >= lane)
            m.d.comb += self.o[lane].eq(register(m, seen, f"seen_{lane}"))
        return m

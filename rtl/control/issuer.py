"""The issuer: starts a tile when its operands are there, and walks through them."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data
from amaranth.lib.stream import Signature as Stream

from rtl.datapath.schedule import TURNED_LATE
from rtl.interface.config import BANKS, Config
from rtl.interface.ports.loading import Release
from rtl.interface.ports.tiles import Factors, Operands, TileEnd
from rtl.interface.tile import Operand, Tile, last_drained
from rtl.interface.trace import Activity, Stall
from rtl.primitives.members import In, Out, Unit


class Issuer(Unit):
    """Presents one address a cycle for operand A and one for operand B, K of them a tile.

    A tile starts as soon as its weight buffer is loaded, its row tile of X8 is normalised and its
    softmax pass has finished, in the cycle after the previous tile's last operand at the earliest;
    its last operand comes after that of the previous tile by at least the cycles in which that one
    drains. Nothing stalls a tile that has started.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            i=In(Stream(Tile(config)), "In order."),
            weights_ready=In(
                2, "A bit for each weight buffer: its weights and parameters are there."
            ),
            release=Out(Release(), "The weight buffer's last word has been read."),
            normalised=In(1, "The row tile of X8 that the tile of `i` reads is."),
            softmax_finished=In(1, "Pulse: one more head and row tile may be read by its context."),
            done=In(1, "Pulse: the epilogue has written a tile."),
            o=Out(Operands(config)),
            tile=Out(TileEnd(config), "The tile in hand."),
            activity=Out(Activity()),
            quiet=Out(1, "No tile is in hand or being drained."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        drain = self.config.tile_columns
        longest = drain + TURNED_LATE if self.config.rotary_pairs else drain
        drain_bits = (longest - 1).bit_length()
        tile: data.View = self.i.payload

        remaining = Signal(self.config.length_bits)
        release = Signal()
        # Of wide operands the first pass ends, and nothing drains.
        precise = self.config.precise
        end = Signal() if precise else self.o.last
        if precise:
            m.d.comb += self.o.last.eq(end & ~self.o.low)
        m.d.comb += [
            self.o.first.eq(self.o.valid & (self.o.index == 0)),
            self.tile.start.eq(self.o.last),
            self.activity.active.eq(self.o.valid),
            self.release.en.eq(self.o.last & release),
            self.release.buffer.eq(self.tile.tag.weight_buffer),
        ]

        free = ~self.o.valid | end

        # gap: the next last operand may come in gap + 1 cycles at the earliest. A tile that is
        # as long as it drains is always long enough.
        gap, gap_left = Signal(range(longest)), Signal(range(longest))
        operands, more = tile.length[:drain_bits], tile.length[drain_bits:]
        drained: ValueLike = drain - 1
        if self.config.ways > 1:
            drained = Signal(range(drain))
            with m.If(free):
                m.d.sync += drained.eq(last_drained(tile.tag.columns, self.config))
        if self.config.rotary_pairs:
            drained = drained + Mux(self.tile.tag.turned, TURNED_LATE, 0)
        m.d.comb += gap.eq(Mux(self.o.last, drained, gap_left))
        m.d.sync += gap_left.eq(Mux(gap == 0, 0, gap - 1))

        drains_early = (more == 0) & (operands <= gap) & ~tile.low.any()

        softmax_ready = Signal(2)
        loaded = self.weights_ready.bit_select(tile.tag.weight_buffer, 1)
        go = Signal()
        with m.If(~free):
            m.d.comb += self.activity.stall.eq(Stall.NONE)
        with m.Elif(~self.i.valid):
            m.d.comb += self.activity.stall.eq(Stall.IDLE)
        with m.Elif(tile.weights & ~loaded):
            m.d.comb += self.activity.stall.eq(Stall.WEIGHTS)
        with m.Elif(tile.norm & ~self.normalised):
            m.d.comb += self.activity.stall.eq(Stall.NORM)
        with m.Elif(tile.softmax & (softmax_ready == 0)):
            m.d.comb += self.activity.stall.eq(Stall.SOFTMAX)
        with m.Elif(drains_early):
            m.d.comb += self.activity.stall.eq(Stall.DRAIN)
        with m.Else():
            m.d.comb += [self.activity.stall.eq(Stall.NONE), go.eq(1)]
        m.d.comb += self.i.ready.eq(go)

        # A tile that may not start yet is loaded all the same: `go`, which is known late in the
        # cycle, reaches a few bits only.
        m.d.sync += [
            self.o.valid.eq(~free | go),
            end.eq(Mux(free, go & (tile.length == 1), remaining == 2)),
        ]
        b, b_address = Signal(Operand), Signal.like(self.o.b_address)  # of the next cycle
        m.d.comb += [
            b.eq(Mux(free, tile.b, self.o.b)),
            b_address.eq(Mux(free, tile.b_address, self.o.b_address + 1)),
        ]
        m.d.sync += [self.o.b.eq(b), self.o.b_address.eq(b_address)]
        of_bank = (b == Operand.BANK) & ~self.quiet
        for number in range(BANKS):
            here = b_address[(self.config.bank_words - 1).bit_length() :][:2] == number
            m.d.sync += self.o.b_banks[number].eq(of_bank & here)
        with m.If(free):
            m.d.sync += [
                self.o.index.eq(0),
                remaining.eq(tile.length),
                release.eq(tile.release),
                self.o.a.eq(tile.a),
                self.o.a_address.eq(tile.a_address),
                self.o.a_way.eq(tile.a_way),
                self.o.low.eq(tile.low),
                self.o.joined.eq(tile.joined),
                self.tile.tag.eq(tile.tag),
                self.activity.operation.eq(tile.operation),
            ]
        with m.Else():
            m.d.sync += [
                self.o.index.eq(self.o.index + 1),
                remaining.eq(remaining - 1),
                self.o.a_address.eq(self.o.a_address + 1),
            ]

        consumed = go & tile.softmax
        m.d.sync += softmax_ready.eq(softmax_ready + self.softmax_finished - consumed)

        # Tiles that were started and not written; one counts a cycle after it started.
        started, in_flight, empty = Signal(), Signal(8), Signal(init=1)
        none = (in_flight == 0) & ~started
        one = Mux(started, in_flight == 0, in_flight == 1)
        m.d.sync += [
            started.eq(go & ~tile.joined.any()),
            in_flight.eq(in_flight + started - self.done),
            empty.eq(~go & (none | (one & self.done))),
        ]
        m.d.comb += self.quiet.eq(empty & ~self.i.valid)
        return m


def selected_lane(index: Value, factor: Factors) -> tuple[Value, Value]:
    """The lane that the embedding's operand `index` selects, and what it carries there."""
    narrow = Mux(index[0], factor.position, factor.token)
    wide = Mux(index[0], 1, Mux(index[1], factor.position, factor.token))
    return Mux(factor.wide, index >> 2, index >> 1), Mux(factor.wide, wide, narrow)

"""The sequencer: turns operations into tiles, in the order in which the array computes them."""

from __future__ import annotations

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.stream import Signature as Stream
from amaranth.lib.wiring import connect, flipped

from rtl.control.attend import AttendWalker
from rtl.control.bounds import Bounds
from rtl.control.walkers import (
    EmbedWalker,
    Length,
    LinearWalker,
    ValueWalker,
    Walker,
    bank_word,
    measured,
)
from rtl.interface.command import WINDOW_BITS
from rtl.interface.config import Config
from rtl.interface.isa import Opcode
from rtl.interface.operation import OPERATION, fields
from rtl.interface.ports.batch import Batch, LengthWrite
from rtl.interface.ports.tiles import Factors, LogitLayout, Multiplier, Region, WindowSides
from rtl.interface.tile import Tile
from rtl.primitives.members import In, Out, Unit, copied
from rtl.primitives.memory import DistributedMemory
from rtl.primitives.queues import OneDeepQueue

WALKERS: dict[str, type[Walker]] = {
    "embed": EmbedWalker,
    "linear": LinearWalker,
    "attend": AttendWalker,
    "value": ValueWalker,  # with several ways
}


def walker_of(operation: data.View, config: Config) -> dict[str, Value]:
    """A bit for each walker: the operation is its own."""
    found: dict[str, Value] = {
        opcode.name.lower(): operation.opcode == opcode
        for opcode in (Opcode.EMBED, Opcode.LINEAR, Opcode.ATTEND)
    }
    if config.ways > 1:
        found["value"] = found["linear"] & operation.flags.transposed
        found["linear"] &= ~operation.flags.transposed
    return found


class Sequencer(Unit):
    """Has the walker of each operation make its tiles, and checks where they lie.

    An operation that reads the banks (ATTEND, and LINEAR with its BANK flag) begins when the array
    is quiet, so everything before it is written. Operands in X8 wait in the issuer for their row
    tile. What it says of the latest ATTEND and EMBED changes only while the array is quiet.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            batch=In(Batch(config)),
            length=In(LengthWrite(config)),
            quiet=In(1, "No tile is waiting, running or being drained behind the sequencer."),
            i=In(Stream(OPERATION), "Operations, in order; one waits while another is in hand."),
            o=Out(Stream(Tile(config)), "Tiles, in order."),
            score_multiplier=Out(Multiplier()),
            context_multiplier=Out(Multiplier()),
            factor=Out(Factors()),
            logits=Out(LogitLayout()),
            context=Out(Region(config)),
            biased=Out(1, "With a position bias: the scores get it.", there=config.bias_heads),
            window=Out(WindowSides(config.tokens), "Of the scores."),
            idle=Out(1, "No operation is in hand."),
            outside=Out(1, "A tile has left the banks that its descriptor names, see `Bounds`."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        op = Signal(OPERATION, reset_less=True)
        # One operation waits behind the one in hand, so that the loader is ahead by its weights.
        m.submodules.following = following = OneDeepQueue(OPERATION)
        connect(m, flipped(self.i), following.i)
        queued = following.o.payload
        # Decoded as it comes: that `queued` waits until the array is quiet, and its walker's bit.
        fence, coming = Signal(), self.i.payload
        kinds = walker_of(coming, self.config)
        of_banks = coming.flags.bank
        if self.config.gated:  # the epilogue reads them then
            of_banks |= fields(Opcode.LINEAR, coming.fields).gate.any()
        queued_kind, kind = Signal(len(kinds)), Signal(len(kinds))
        with m.If(self.i.ready):
            m.d.sync += [
                fence.eq(
                    (coming.opcode == Opcode.ATTEND) | ((coming.opcode == Opcode.LINEAR) & of_banks)
                ),
                queued_kind.eq(Cat(*kinds.values())),
            ]
        begin = Signal(len(kinds))  # by walker
        done = self._walk(m, op, kind, begin)
        attends = 1 << list(kinds).index("attend")

        m.d.sync += begin.eq(0)
        with m.FSM(name="state") as fsm:
            m.d.comb += self.idle.eq(fsm.ongoing("IDLE") & ~self.i.valid & ~following.o.valid)
            with m.State("IDLE"):
                m.d.comb += following.o.ready.eq(self.batch.ready & (self.quiet | ~fence))
                m.d.sync += [op.eq(queued), kind.eq(queued_kind)]
                with m.If(following.o.valid & following.o.ready):
                    m.d.sync += begin.eq(queued_kind & ~attends)
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.next = "WALK"
                with m.If(kind & attends):
                    m.d.sync += begin.eq(attends)
                    m.next = "BEGIN ATTEND"
                self._constants(m, op)
            with m.State("BEGIN ATTEND"):
                m.next = "WALK"
            with m.State("WALK"):
                with m.If(done):
                    m.next = "IDLE"
        return m

    def _walk(self, m: Module, op: Signal, kind: Signal, begin: Signal) -> Signal:
        """The walkers and the check of their tiles; the operation's end.

        Only the walker of `kind` is ever valid.
        """
        walkers = {name: WALKERS[name](self.config) for name in walker_of(op, self.config)}
        m.submodules.bounds = bounds = Bounds(self.config)
        # Measured as they are written, long before they are read; the first two are registers, too.
        length, number = Signal(Length(self.config)), Signal(range(self.config.row_tiles))
        m.submodules.lengths = lengths = DistributedMemory(
            Length(self.config), self.config.row_tiles
        )
        m.d.sync += [
            lengths.write.en.eq(self.length.en),
            number.eq(self.length.address),
            *measured(length, self.length.data, self.config.lanes),
        ]
        m.d.comb += [lengths.write.address.eq(number), lengths.write.data.eq(length)]
        of_number = [Signal(Length(self.config), name=f"length_{place}") for place in range(2)]
        for place, first in enumerate(of_number):
            with m.If(lengths.write.en & (number == place)):
                m.d.sync += first.eq(length)
        gathered = Signal()
        done, half_done, half = Signal(), Signal(), Signal()
        with m.If(half_done):
            m.d.sync += half.eq(~half)
        # The first sum of the first tokens gathers them.
        with m.If(done & (op.opcode == Opcode.LINEAR) & op.flags.residual & op.flags.first_tile):
            m.d.sync += gathered.eq(1)
        passes = Cat(*(walker.passes for walker in walkers.values())).any()
        m.d.comb += [
            bounds.en.eq((self.o.valid & self.o.ready) | passes),
            self.outside.eq(bounds.outside),
        ]
        for (name, walker), walks, begins in zip(walkers.items(), kind, begin, strict=True):
            m.submodules[name] = walker
            m.d.comb += [
                walker.begin.eq(begins),
                walker.operation.eq(op),
                *copied(walker.batch, self.batch, "sequences", "row_tiles", "gathered"),
                walker.length.eq(lengths.read.data),
                walker.first.eq(of_number[0]),
                walker.second.eq(of_number[1]),
                walker.gathered.eq(gathered),
                walker.weight_base.eq(Mux(half, self.config.weight_words, 0)),
                walker.o.ready.eq(self.o.ready),
            ]
            if isinstance(walker, AttendWalker):
                m.d.comb += copied(walker.window, self.window)
            with m.If(walks):
                m.d.comb += [
                    self.o.payload.eq(walker.o.payload),
                    bounds.areas.eq(walker.areas),
                ]
        m.d.comb += [
            lengths.read.address.eq(reduce(or_, (walker.number for walker in walkers.values()))),
            self.o.valid.eq(Cat(*(walker.o.valid for walker in walkers.values())).any()),
            half_done.eq(Cat(*(walker.half_done for walker in walkers.values())).any()),
            done.eq(Cat(*(walker.done for walker in walkers.values())).any()),
        ]
        # Only LINEAR's tiles wait for a NORM: what they wait for comes straight out of registers.
        row = walkers["linear"].o.payload.row
        if self.config.ways > 1:
            row = Mux(kind[list(walkers).index("value")], walkers["value"].o.payload.row, row)
        m.d.comb += [
            self.o.payload.row.eq(row),
            self.o.payload.norm_index.eq(op.norm_index),
            self.o.payload.operation.eq(op.number),
            self.o.payload.tag.weight_buffer.eq(half),
        ]
        return done

    def _constants(self, m: Module, op: Signal) -> None:
        """Set what holds for a whole EMBED or ATTEND, and of the logits to the end."""
        embed, attend = fields(Opcode.EMBED, op.fields), fields(Opcode.ATTEND, op.fields)
        linear = fields(Opcode.LINEAR, op.fields)
        with m.If((op.opcode == Opcode.LINEAR) & op.flags.logits):
            m.d.sync += [
                self.logits.every.eq(~op.flags.first_tile),
                self.logits.labels.eq(linear.columns),
                self.logits.stride.eq(linear.destination_stride),
            ]
        with m.If(op.opcode == Opcode.EMBED):
            m.d.sync += [
                self.factor.token.eq(embed.token_factor),
                self.factor.position.eq(embed.position_factor),
                self.factor.wide.eq(embed.wide),
            ]
        with m.If(op.opcode == Opcode.ATTEND):
            m.d.sync += [
                self.score_multiplier.m.eq(attend.score_m),
                self.score_multiplier.s.eq(attend.score_s),
                self.context_multiplier.m.eq(attend.context_m),
                self.context_multiplier.s.eq(attend.context_s),
                self.context.address.eq(bank_word(attend.context, self.config)),
                self.context.stride.eq(attend.stride),
            ]
            m.d.sync += self.biased.eq(op.flags.bias)
            given, most = op.flags.window, self.config.tokens
            for place, side in enumerate((self.window.before, self.window.after)):
                asked = attend.window.word_select(place, WINDOW_BITS)
                limits = asked < most if most <= 1 << WINDOW_BITS else ~asked.all()
                m.d.sync += side.eq(Mux(given & limits, asked, most))

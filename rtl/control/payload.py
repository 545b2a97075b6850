"""The writers of payloads: weight tiles, tables, and the parameters of a NORM."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, ValueLike, unsigned
from amaranth.lib import stream, wiring

from rtl.interface.command import NORM_PLANES, PARAMETER_PLANES, TABLE_BYTES
from rtl.interface.config import Config, power_of_two
from rtl.interface.ports.loading import (
    BiasWrite,
    NormParameterWrite,
    ParameterWrite,
    Release,
    TableWrite,
    WeightWrite,
)
from rtl.interface.word import int16_word
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.memory import WritePort


class TileWriter(Unit):
    """Weights and parameters of a LINEAR, into the halves of their double buffers in turn.

    A column tile is the weights of K inputs and 7 byte planes, each part once its half is released.
    Weights are taken as the stream has them, M bytes a cycle, for the columns of a tile; a plane
    part by part, N channels a cycle. TRANSPOSED tiles have N channels, in the first way, and come
    part by part. The embedding rows of an EMBED fill the weight halves in the same turn, from
    elsewhere.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        n = config.lanes
        super().__init__(
            begin=In(1, "Pulse: a LINEAR of `columns` comes; its K, stable until `done`."),
            length=In(16, ...),
            columns=In(16, ...),
            **(self._wide() if config.ways > 1 else {}),
            i=In(stream.Signature(unsigned(8 * n)), "A part of a word of the command stream."),
            weight=Out(WeightWrite(config)),
            parameter=Out(ParameterWrite(config)),
            release=In(Release()),
            parameter_release=In(Release()),
            free=Out(1, "The weight half in turn may be filled."),
            filled=In(1, "Pulse: it was filled from elsewhere."),
            ready=Out(2, "A bit for each weight half that is full."),
            done=Out(1, "Pulse: the LINEAR's last word is taken."),
        )

    def _wide(self) -> dict[str, wiring.Member]:
        """What several ways need."""
        return {
            "transposed": In(1, "With several ways: it is TRANSPOSED; stable until `done`."),
            "whole": In(8 * self.config.stream_width, "With several ways: the word; valid as `i`."),
            "part": In(range(self.config.ways), "With several ways: the number of the part."),
            "takes_whole": Out(1, "With several ways: `i` takes all parts at once."),
            "ends": Out(1, "With several ways: what `i` takes is the LINEAR's last."),
        }

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n, ways = self.config.lanes, self.config.ways
        half, planes = Signal(), Signal()  # which half; its weights are there, planes follow
        weights_full, parameters_full = Signal(2), Signal(2)
        count = Signal(range(max(self.config.weight_words, PARAMETER_PLANES)))
        columns_left = Signal(16, reset_less=True)
        at_end = Signal()  # `count` is the last one of the weights, or of the planes
        final = Signal()  # the column tile is the last one
        taken, complete, room = Signal(), Signal(), Signal()
        part_last = Signal()  # with several ways: of those of an input or a plane
        next_input = taken if ways == 1 else taken & part_last
        m.d.comb += [
            self.ready.eq(weights_full),
            self.free.eq(~weights_full.bit_select(half, 1)),
            room.eq(~parameters_full.bit_select(half, 1)),
            self.i.ready.eq(Mux(planes, room, self.free)),
            taken.eq(self.i.valid & self.i.ready),
            complete.eq(next_input & planes & at_end),
            self.done.eq(complete & final),
            # Not by way of `taken`: each of the two is on its way to many registers.
            self.weight.buffer.eq(half),
            self.weight.address.eq(count),
            self.weight.data[0].eq(self.i.payload),
            self.parameter.en.eq(self.i.valid & planes & room),
            self.parameter.buffer.eq(half),
            self.parameter.plane.eq(count),
            self.parameter.data.eq(self.i.payload),
        ]
        writes = self.i.valid & ~planes & self.free
        step: ValueLike = n  # channels of a tile
        if ways == 1:
            m.d.comb += self.weight.en.eq(writes)
        else:
            step = Mux(self.transposed, n, self.config.tile_columns)
            m.d.comb += [
                self.takes_whole.eq(~self.transposed & ~planes),
                part_last.eq(self.transposed | ~planes | (self.part == ways - 1)),
                self.ends.eq(part_last & planes & at_end & final),
                self.weight.en.eq(Mux(writes, Mux(self.transposed, 1, (1 << ways) - 1), 0)),
                self.parameter.word.eq(Mux(self.transposed, 0, self.part)),
            ]
            for way in range(ways):
                word = self.whole.word_select(way, 8 * n)
                m.d.comb += self.weight.data[way].eq(
                    word if way else Mux(self.transposed, self.i.payload, word)
                )
        with m.If(self.begin):
            m.d.sync += [
                columns_left.eq(self.columns),
                final.eq(self.columns <= step),
                at_end.eq(self.length == 1),
            ]
        with m.If(next_input):
            last = Mux(planes, PARAMETER_PLANES, self.length)
            m.d.sync += [count.eq(count + 1), at_end.eq(count + 2 == last)]
            with m.If(at_end):
                m.d.sync += [
                    count.eq(0),
                    planes.eq(~planes),
                    at_end.eq(planes & (self.length == 1)),
                ]
        with m.If(complete):
            m.d.sync += [
                columns_left.eq(columns_left - step),
                final.eq(columns_left <= (step << 1)),
                parameters_full.bit_select(half, 1).eq(1),
            ]
        with m.If(complete | self.filled):
            m.d.sync += [half.eq(~half), weights_full.bit_select(half, 1).eq(1)]
        with m.If(self.release.en):
            m.d.sync += weights_full.bit_select(self.release.buffer, 1).eq(0)
        with m.If(self.parameter_release.en):
            m.d.sync += parameters_full.bit_select(self.parameter_release.buffer, 1).eq(0)
        return m


class TableWriter(Unit):
    """A table of 256 bytes, a word in N + 1 cycles: it is held while its bytes are written.

    With `precise` a table of low halves may follow it.
    """

    def __init__(self, lanes: int, precise: bool = False) -> None:
        self.lanes, self.precise = lanes, precise
        super().__init__(
            i=In(stream.Signature(unsigned(8 * lanes))),
            o=Out(TableWrite(precise)),
            done=Out(1, "Pulse: the last byte is written."),
            **(
                {"wide": In(1, "It does; stable until `done`. With `precise` only.")}
                if precise
                else {}
            ),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n, words = self.lanes, TABLE_BYTES // self.lanes
        held, writing = Signal(8 * n, reset_less=True), Signal()
        written, count = Signal(range(n)), Signal(range(words << self.precise))
        last = Mux(self.wide, 2 * words - 1, words - 1) if self.precise else words - 1
        m.d.comb += [
            self.i.ready.eq(~writing),
            self.o.en.eq(writing),
            self.o.address.eq(Cat(written, count)),
            self.o.data.eq(held.word_select(written, 8)),
            self.done.eq(writing & (written == n - 1) & (count == last)),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [held.eq(self.i.payload), writing.eq(1)]
        with m.If(writing):
            m.d.sync += written.eq(written + 1)
            with m.If(written == n - 1):
                m.d.sync += [writing.eq(0), count.eq(count + 1)]
        if self.precise:
            with m.If(self.done):
                m.d.sync += count.eq(0)
        return m


class BiasWriter(Unit):
    """The position bias, N values in two byte planes; a cycle more at its end.

    Of each head come the words 1 - R to R, R its row tiles.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            heads=In(8, "From 1; stable until `done`."),
            row_tiles=In(16, ...),
            i=In(stream.Signature(unsigned(8 * config.lanes))),
            o=Out(BiasWrite(config)),
            done=Out(1, "Pulse: the last word is written."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n, words = self.config.lanes, self.config.bias_head_words
        low, second = Signal(8 * n, reset_less=True), Signal()
        count, head = Signal(range(words)), Signal(range(self.config.bias_heads))
        taken, complete, word_last, head_last = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(~self.done),
            taken.eq(self.i.valid & self.i.ready),
            complete.eq(taken & second),
            word_last.eq(count == ((self.row_tiles << 1) - 1)[: len(count)]),
            head_last.eq(head == (self.heads - 1)[: len(head)]),
        ]
        m.d.sync += [
            self.done.eq(complete & word_last & head_last),
            self.o.en.eq(complete),
            self.o.address.eq(Cat((count + 1 - self.row_tiles)[: len(count)], head)),
            *(
                self.o.data[lane].eq(
                    Cat(plane.word_select(lane, 8) for plane in (low, self.i.payload))
                )
                for lane in range(n)
            ),
        ]
        with m.If(taken):
            m.d.sync += [low.eq(self.i.payload), second.eq(~second)]
        with m.If(complete):
            m.d.sync += count.eq(count + 1)
            with m.If(word_last):
                m.d.sync += [count.eq(0), head.eq(Mux(head_last, 0, head + 1))]
        return m


class RotaryWriter(Unit):
    """The tables of rotary positions, N values in two byte planes; a cycle more at their end.

    Of each channel of a pair (cos, sin) come `row_tiles` words, see `Rotary`.

    Parameters
    ----------
    lanes, pairs, row_tiles
        Those of `Rotary`.
    """

    def __init__(self, lanes: int, pairs: int, row_tiles: int) -> None:
        self.lanes, self.channels, self.row_words = lanes, 2 * pairs, power_of_two(row_tiles)
        super().__init__(
            pairs=In(16, "From 1; stable until `done`."),
            row_tiles=In(16, ...),
            i=In(stream.Signature(unsigned(8 * lanes))),
            o=Out(
                WritePort(range(self.channels * self.row_words), int16_word(lanes)),
                "As the memory of `Rotary` takes it.",
            ),
            done=Out(1, "Pulse: the last word is written."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n = self.lanes
        low, second = Signal(8 * n, reset_less=True), Signal()
        row, channel = Signal(range(self.row_words)), Signal(range(self.channels))
        taken, complete, row_last, channel_last = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(~self.done),
            taken.eq(self.i.valid & self.i.ready),
            complete.eq(taken & second),
            row_last.eq(row == (self.row_tiles - 1)[: len(row)]),
            channel_last.eq(channel == ((self.pairs << 1) - 1)[: len(channel)]),
        ]
        m.d.sync += [
            self.done.eq(complete & row_last & channel_last),
            self.o.en.eq(complete),
            self.o.address.eq(Cat(row, channel)),
            *(
                self.o.data[lane].eq(
                    Cat(plane.word_select(lane, 8) for plane in (low, self.i.payload))
                )
                for lane in range(n)
            ),
        ]
        with m.If(taken):
            m.d.sync += [low.eq(self.i.payload), second.eq(~second)]
        with m.If(complete):
            m.d.sync += row.eq(row + 1)
            with m.If(row_last):
                m.d.sync += [row.eq(0), channel.eq(Mux(channel_last, 0, channel + 1))]
        return m


class NormWriter(Unit):
    """gamma, beta and shifts of N channels in 6 + N cycles: byte planes are held while written.

    The plane of shifts, where there is one, is taken in the cycle in which its first channel is
    written, so that it costs no cycle.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            channels=In(16, "Stable until `done`."),
            shifts=In(1, "There is a plane of shifts; without it all are 8. Stable until `done`."),
            i=In(stream.Signature(unsigned(8 * config.lanes))),
            o=Out(NormParameterWrite(config.hidden)),
            done=Out(1, "Pulse: the last channel is written."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n = self.config.lanes
        held, shifts = (Signal(8 * n * p, reset_less=True) for p in (NORM_PLANES, 1))
        writing, first, moves = Signal(), Signal(), Signal()
        written, at_first = Signal(range(n)), Signal(init=1)  # and whether it is 0
        count = Signal(range(NORM_PLANES))
        channel = Signal(range(self.config.hidden + n))
        final = Signal()  # `channel` is the last one, known from the second of a plane on
        m.d.comb += [
            first.eq(writing & at_first),
            moves.eq(writing & ~(first & self.shifts & ~self.i.valid)),
            self.i.ready.eq(~writing | (first & self.shifts)),
            self.o.en.eq(moves & (channel < self.channels)),
            self.o.address.eq(channel),
            self.o.gamma.eq(
                Cat(*(held.word_select(written + n * p, 8) for p in range(2))).as_signed()
            ),
            self.o.beta.eq(
                Cat(*(held.word_select(written + n * p, 8) for p in range(2, 6))).as_signed()
            ),
            # A byte counts by its three low bits, so that each is a shift: 8 is 0.
            self.o.operand_shift.eq(
                Mux(self.shifts, Mux(first, self.i.payload, shifts).word_select(written, 8)[:3], 0)
            ),
            self.done.eq(moves & (written == n - 1) & final),
        ]
        # A plane is loaded whether it is valid or not: `valid`, which comes late, reaches few bits.
        for plane in range(NORM_PLANES):
            with m.If(~writing & (count == plane)):
                m.d.sync += held.word_select(plane, 8 * n).eq(self.i.payload)
        with m.If(self.i.valid & ~writing):
            m.d.sync += count.eq(count + 1)
            with m.If(count == NORM_PLANES - 1):
                m.d.sync += [count.eq(0), writing.eq(1)]
        with m.If(first):
            m.d.sync += shifts.eq(self.i.payload)
        with m.If(moves):
            m.d.sync += [
                written.eq(written + 1),
                at_first.eq(written == n - 1),
                channel.eq(channel + 1),
                final.eq(channel + 2 >= self.channels),
            ]
            with m.If(written == n - 1):
                m.d.sync += writing.eq(0)
        with m.If(self.done):
            m.d.sync += channel.eq(0)
        return m

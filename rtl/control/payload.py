"""The writers of payloads: weight tiles, tables, and the parameters of a NORM."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib.stream import Signature as Stream

from rtl.interface.command import NORM_PLANES, PARAMETER_PLANES, TABLE_BYTES
from rtl.interface.config import Config
from rtl.interface.ports.loading import (
    NormParameterWrite,
    ParameterWrite,
    Release,
    TableWrite,
    WeightWrite,
)
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.memory import WritePort


class TileWriter(Unit):
    """Weights and parameters of a LINEAR, into the halves of their double buffers in turn.

    A column tile is the weights of K inputs and 7 byte planes, each part once its half is released.
    Weights are taken as the stream has them, M bytes a cycle, for the columns of a tile; a plane
    part by part, N channels a cycle. TRANSPOSED tiles have N channels, in the first way, and come
    part by part. The embedding rows of an EMBED fill the weight halves in the same turn, from
    elsewhere. With one way a part is the word, and TRANSPOSED no matter.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        n, several = config.lanes, config.ways > 1
        super().__init__(
            begin=In(1, "Pulse: a LINEAR of `columns` comes; its K, stable until `done`."),
            length=In(16, ...),
            columns=In(16, ...),
            transposed=In(1, "It is TRANSPOSED; stable until `done`.", there=several),
            whole=In(8 * config.stream_width, "The word; valid as `i`.", there=several),
            part=In(range(config.ways), "The number of the part."),
            takes_whole=Out(1, "`i` takes all parts at once.", there=several),
            ends=Out(1, "What `i` takes is the LINEAR's last.", there=several),
            i=In(Stream(unsigned(8 * n)), "A part of a word of the command stream."),
            weight=Out(WeightWrite(config)),
            parameter=Out(ParameterWrite(config)),
            release=In(Release()),
            parameter_release=In(Release()),
            free=Out(1, "The weight half in turn may be filled."),
            filled=In(1, "Pulse: it was filled from elsewhere."),
            ready=Out(2, "A bit for each weight half that is full."),
            done=Out(1, "Pulse: the LINEAR's last word is taken."),
        )

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
        transposed = self.transposed.any()
        part_last = Signal()  # of those of an input or a plane
        next_input = taken & part_last
        step = Mux(transposed, n, self.config.tile_columns)  # channels of a tile
        writes = self.i.valid & ~planes & self.free
        m.d.comb += [
            self.ready.eq(weights_full),
            self.free.eq(~weights_full.bit_select(half, 1)),
            room.eq(~parameters_full.bit_select(half, 1)),
            self.i.ready.eq(Mux(planes, room, self.free)),
            taken.eq(self.i.valid & self.i.ready),
            part_last.eq(transposed | ~planes | (self.part == ways - 1)),
            complete.eq(next_input & planes & at_end),
            self.done.eq(complete & final),
            self.takes_whole.eq(~transposed & ~planes),
            self.ends.eq(part_last & planes & at_end & final),
            # Not by way of `taken`: each of the two is on its way to many registers.
            self.weight.en.eq(Mux(writes, Mux(transposed, 1, (1 << ways) - 1), 0)),
            self.weight.buffer.eq(half),
            self.weight.address.eq(count),
            self.parameter.en.eq(self.i.valid & planes & room),
            self.parameter.buffer.eq(half),
            self.parameter.plane.eq(count),
            self.parameter.word.eq(Mux(transposed, 0, self.part)),
            self.parameter.data.eq(self.i.payload),
        ]
        for way, word in enumerate(self.weight.data):
            whole = self.whole.word_select(way, 8 * n)
            first = self.i.payload if ways == 1 else Mux(transposed, self.i.payload, whole)
            m.d.comb += word.eq(whole if way else first)
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
            i=In(Stream(unsigned(8 * lanes))),
            o=Out(TableWrite(precise)),
            done=Out(1, "Pulse: the last byte is written."),
            wide=In(1, "It does; stable until `done`. With `precise` only.", there=precise),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n, words = self.lanes, TABLE_BYTES // self.lanes
        held, writing = Signal(8 * n, reset_less=True), Signal()
        written, count = Signal(range(n)), Signal(range(words << self.precise))
        last = Mux(self.wide, 2 * words - 1, words - 1)
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


class PlaneWriter(Unit):
    """Words of N values in two byte planes, for a memory of tables; a cycle more at their end.

    `BIAS` has a table for each head, its words 1 - R to R, R row tiles; `ROTARY` one for each
    channel of a pair (cos, sin), of R words. An address is the table, and below it the word.

    Parameters
    ----------
    port
        Of the memory.
    words
        Of a table, a power of two.
    signed_words
        They begin at 1 - R: 2 R of them; else at 0.
    """

    def __init__(self, lanes: int, port: WritePort, words: int, *, signed_words: bool) -> None:
        self.lanes, self.words, self.signed_words = lanes, words, signed_words
        super().__init__(
            tables=In(16, "From 1; stable until `done`."),
            row_tiles=In(16, ...),
            i=In(Stream(unsigned(8 * lanes))),
            o=Out(port),
            done=Out(1, "Pulse: the last word is written."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n = self.lanes
        low, second = Signal(8 * n, reset_less=True), Signal()
        word = Signal(range(self.words))
        table = Signal(len(self.o.address) - len(word))
        taken, complete, word_last, table_last = Signal(), Signal(), Signal(), Signal()
        first = 1 - self.row_tiles if self.signed_words else 0
        m.d.comb += [
            self.i.ready.eq(~self.done),
            taken.eq(self.i.valid & self.i.ready),
            complete.eq(taken & second),
            word_last.eq(word == ((self.row_tiles << self.signed_words) - 1)[: len(word)]),
            table_last.eq(table == (self.tables - 1)[: len(table)]),
        ]
        m.d.sync += [
            self.done.eq(complete & word_last & table_last),
            self.o.en.eq(complete),
            self.o.address.eq(Cat((word + first)[: len(word)], table)),
        ]
        for lane, value in enumerate(self.o.data):
            halves = [plane.word_select(lane, 8) for plane in (low, self.i.payload)]
            m.d.sync += value.eq(Cat(halves))
        with m.If(taken):
            m.d.sync += [low.eq(self.i.payload), second.eq(~second)]
        with m.If(complete):
            m.d.sync += word.eq(word + 1)
            with m.If(word_last):
                m.d.sync += [word.eq(0), table.eq(Mux(table_last, 0, table + 1))]
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
            i=In(Stream(unsigned(8 * config.lanes))),
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

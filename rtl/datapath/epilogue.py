"""The epilogue: parallel lanes that finish one drained column a cycle."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import (
    Array,
    Cat,
    Const,
    Elaboratable,
    Module,
    Mux,
    Signal,
    Value,
    ValueLike,
    signed,
    unsigned,
)
from amaranth.lib import data
from amaranth.lib.wiring import connect, flipped

from rtl.datapath.activation import ActivationTable
from rtl.datapath.requantize import Requantize
from rtl.datapath.rotary import Rotary
from rtl.datapath.schedule import (
    APART,
    BIAS_READ,
    CODE,
    COUNTED,
    DRAINED,
    GATE_READ,
    LOOKED_UP,
    REQUANTIZED,
    RESIDUAL_READ,
    ROTARY_READ,
    SELECTED,
    SUMMED,
    TURNED,
    TURNED_LATE,
    WRITTEN,
    check_ahead,
)
from rtl.datapath.window import Window
from rtl.interface.command import PARAMETER_PLANES
from rtl.interface.config import Config
from rtl.interface.ports.datapath import (
    BiasPlace,
    GateRead,
    LogitWrite,
    ResidualAccess,
    RowScales,
    ScoreColumn,
)
from rtl.interface.ports.loading import ParameterWrite, Release, RotaryWrite, TableWrite
from rtl.interface.ports.tiles import Multiplier, TileEnd, WindowSides
from rtl.interface.tile import Epilogue as Kind
from rtl.interface.tile import Tag, address_bits, last_drained
from rtl.interface.word import activation_word
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.memory import DistributedMemory, WritePort
from rtl.primitives.pipeline import delay, register, stages
from rtl.primitives.saturate import saturate

UNIT_M, UNIT_S = 1 << 15, 15  # 2^15 * 2^-15: the embedding is requantized by 1
BYTE_PLANE = data.StructLayout({"bias": signed(32), "m": unsigned(16), "s": unsigned(8)})


class Epilogue(Unit):
    """Bias, requantize, then table, residual, score, context or logits, a column a cycle.

    `rtl.datapath.schedule` says what happens in which cycle.

    A column that the tile does not write (`tag.columns`, `tag.skipped`) is computed and dropped.

    Parameters
    ----------
    ahead
        How far `x.busy` looks ahead, 0..`latency` - 2.

    Attributes
    ----------
    latency
        Cycle of the write of column 0; that of the last column that drains is of `done`.

    Raises
    ------
    ValueError
        ahead is out of range.
    """

    latency = WRITTEN

    def __init__(self, config: Config, ahead: int = 1) -> None:
        self.config, self.ahead = config, check_ahead(ahead)
        n = config.lanes
        self.requantize = Requantize(n)
        self.activation = ActivationTable(n)
        self.low_activation = ActivationTable(n) if config.precise else None
        super().__init__(
            tile=In(TileEnd(config), "Cycle 0 of a tile and its fields."),
            column=In(data.ArrayLayout(signed(config.acc_bits), n), "The array's output."),
            parameter=In(ParameterWrite(config)),
            table=In(TableWrite(config.precise)),
            rotary=In(
                RotaryWrite(config),
                "Of columns that are written `TURNED_LATE` cycles later than others.",
                there=config.rotary_pairs,
            ),
            score_multiplier=In(Multiplier(), "Of the scores."),
            window=In(WindowSides(config.tokens), "Of the scores."),
            row=Out(RowScales(n), "The multipliers of the queries, from the softmax."),
            bank=Out(
                WritePort(address_bits(config), activation_word(n, config.precise), config.ways),
                "Of the banks; `en` has a bit for each way.",
            ),
            x=Out(ResidualAccess(config)),
            gate=Out(GateRead(config), "With gates.", there=config.gated),
            score=Out(ScoreColumn(n, config.tokens, config.places), "For the softmax."),
            place=Out(
                BiasPlace(config.lanes, config.bias_heads, config.bias_head_words),
                "Of a score, `PositionBias.ahead` cycles before it.",
                there=config.bias_heads,
            ),
            logit=Out(LogitWrite(config)),
            done=Out(
                1, "Pulses: a tile is written; with a row tile of X16; the table's last user."
            ),
            row_tile_done=Out(1, ...),
            table_done=Out(1, ...),
            parameter_release=Out(Release(), "The half's parameters were used for the last time."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        m.submodules.requantize = requantize = self.requantize
        m.submodules.table = table = self.activation
        n = self.config.lanes

        # at[c] is the column's control in cycle c of the schedule.
        written = WRITTEN + (TURNED_LATE if self.config.rotary_pairs else 0)
        copies = stages(m, self._column(m), written - COUNTED, "column")
        at = {COUNTED + cycle: stage for cycle, stage in enumerate(copies)}

        self._parameters(m, at)

        # BIASED and SUMMED.
        for i in range(n):
            acc = register(m, self.column[i], f"acc_{i}")
            biased = Signal(signed(32), name=f"biased_{i}", reset_less=True)
            m.d.sync += biased.eq(acc + self._bias[i])
            m.d.comb += [
                requantize.acc[i].eq(biased),
                requantize.m[i].eq(register(m, self._m[i], f"m_biased_{i}")),
                requantize.s[i].eq(register(m, self._s[i], f"s_biased_{i}")),
            ]
        m.d.comb += [
            self.logit.en.eq(at[SUMMED].write & (at[SUMMED].epilogue == Kind.LOGITS)),
            self.logit.lanes.eq(written_lanes(at[SUMMED], n)),
            self.logit.index.eq(at[SUMMED].address),
        ]
        sums = requantize.acc
        for i in range(n):
            m.d.comb += self.logit.value[i].eq(Mux(at[SUMMED].gather, sums[0], sums[i]))

        self._scores(m, at)

        # CODE to WRITTEN.
        turned = self._turned(m, at) if self.config.rotary_pairs else None
        self._residual(m, at)
        low_known = Signal() if self.low_activation is not None else Const(0)
        products = self._products(m, at, low_known) if self.config.gated else None
        for i in range(n):
            code = register(m, saturate(requantize.o[i], 8), f"code_{i}")
            plain = delay(m, code, table.latency, f"plain_{i}")
            chosen: ValueLike = Mux(at[LOOKED_UP].table, table.o[i], plain)
            m.d.comb += table.i[i].eq(code)
            if self.low_activation is not None:
                m.d.comb += self.low_activation.i[i].eq(code)
                low = self.low_activation.o[i]
                chosen = Cat(Mux(at[LOOKED_UP].table & low_known, low, 0)[:8], chosen)
            if products is not None:
                chosen = Mux(at[LOOKED_UP].gated, products[i], chosen)
            if turned is not None:
                rotated = Cat(Const(0, 8 * self.config.precise), turned.o[i])
                chosen = Mux(at[TURNED].turned & at[TURNED].write, rotated, chosen)
            m.d.comb += self.bank.data[i].eq(register(m, chosen, f"word_{i}"))
        self._table(m, low_known)
        self._ends(m, at)
        return m

    def _scores(self, m: Module, at: dict) -> None:
        """REQUANTIZED: scores leave; before it their window and the place of their bias."""
        lane_bits = self.config.lanes.bit_length() - 1
        m.d.comb += [
            self.score.en.eq(at[REQUANTIZED].write & (at[REQUANTIZED].epilogue == Kind.SCORE)),
            self.score.first.eq(at[REQUANTIZED].score_first),
            self.score.last.eq(at[REQUANTIZED].score_last),
            self.score.buffer.eq(at[REQUANTIZED].softmax_buffer),
            self.score.key.eq(at[REQUANTIZED].address),
            self.score.place.eq(
                Cat(
                    at[REQUANTIZED].address[:lane_bits],
                    at[REQUANTIZED].index[lane_bits:],
                    at[REQUANTIZED].row,
                )
            ),
            self.score.data.eq(self.requantize.o),
        ]
        m.submodules.window = window = Window(self.config)
        connect(m, flipped(self.window), window.sides)
        m.d.comb += [
            window.apart.eq(at[APART].apart),
            window.column.eq(at[APART].index[:lane_bits]),
            self.score.seen.eq(window.o),
        ]
        if self.config.bias_heads:
            m.d.comb += [
                self.place.head.eq(at[BIAS_READ].head),
                self.place.word.eq(at[BIAS_READ].apart),
                self.place.column.eq(at[BIAS_READ].index[:lane_bits]),
            ]

    def _table(self, m: Module, low_known: Value) -> None:
        """Writes of the activation tables; whether the latest TABLE had low halves."""
        table = self.activation
        # An entry is written a cycle after it came, long before its first user.
        of_low = self.table.address[8:].any()
        if self.low_activation is not None:
            m.submodules.low_table = low = self.low_activation
            # A TABLE without WIDE has none: what the latest one with WIDE has left must not count.
            with m.If(self.table.en):
                m.d.sync += low_known.eq(of_low)
            m.d.sync += [
                low.write.en.eq(self.table.en & of_low),
                low.write.address.eq(self.table.address),
                low.write.data.eq(self.table.data),
            ]
        m.d.sync += [
            table.write.en.eq(self.table.en & ~of_low),
            table.write.address.eq(self.table.address),
            table.write.data.eq(self.table.data),
        ]

    def _ends(self, m: Module, at: dict) -> None:
        """WRITTEN: the write into a bank, and what ends with the column."""
        before, last = at[WRITTEN - 1], at[WRITTEN]
        into_bank = before.write & (
            (before.epilogue == Kind.INT8) | (before.epilogue == Kind.CONTEXT)
        )
        address, way = last.address, before.way
        if self.config.rotary_pairs:
            # The next tile's first columns are there while the last turned ones are written.
            late = at[TURNED].turned & at[TURNED].write
            into_bank = late | (into_bank & ~before.turned)
            address = register(m, Mux(late, at[TURNED].address, before.address), "bank_address")
            way = Mux(late, at[TURNED].way, way)
        m.d.sync += self.bank.en.eq(Mux(into_bank, 1 << way, 0))
        m.d.comb += [
            self.bank.address.eq(address),
            self.done.eq(last.end),
            self.row_tile_done.eq(last.end & last.row_tile_done),
            self.parameter_release.en.eq(at[DRAINED].end & at[DRAINED].release),
            self.parameter_release.buffer.eq(at[DRAINED].weight_buffer),
            self.table_done.eq(last.end & last.table_last),
        ]

    def _column(self, m: Module) -> data.View:
        """COUNTED: what the tile says of the column of this cycle."""
        lane_bits = self.config.lanes.bit_length() - 1
        tag = Signal(Tag(self.config))
        active, write, into_x = Signal(), Signal(), Signal()
        columns = self.config.tile_columns
        more = TURNED_LATE if self.config.rotary_pairs else 0
        index = Signal(range(columns + more))
        next_index = (index + 1)[: columns.bit_length()]
        last: ValueLike = columns - 1  # the column that drains last
        written = (next_index < tag.columns) & (next_index[lane_bits:] >= tag.skipped)
        starts = (self.tile.tag.columns != 0) & (self.tile.tag.skipped == 0)
        if self.config.ways > 1:
            last = Signal(range(columns))
            with m.If(self.tile.start):
                m.d.sync += last.eq(last_drained(self.tile.tag.columns, self.config))
        if self.config.rotary_pairs:
            last = last + Mux(tag.turned, more, 0)
        kind = self.tile.tag.epilogue
        with m.If(self.tile.start):
            m.d.sync += [
                tag.eq(self.tile.tag),
                active.eq(1),
                index.eq(0),
                write.eq(starts),
                into_x.eq((kind == Kind.RESIDUAL) | (kind == Kind.EMBEDDING)),
            ]
        with m.Elif(active):
            m.d.sync += [
                index.eq(index + 1),
                active.eq(index != last),
                write.eq((index != last) & written),
            ]

        fields = Tag(self.config).members
        own = {"write": 1, "into_x": 1, "end": 1, "index": range(columns)}
        column = Signal(data.StructLayout({**own, **fields}))
        first = index == Cat(Const(0, lane_bits), tag.skipped)
        m.d.comb += [
            *(column[name].eq(tag[name]) for name in fields),
            column.write.eq(write),
            column.into_x.eq(into_x),
            column.end.eq(active & (index == last)),
            column.index.eq(index),
            column.address.eq(tag.address + index),
            column.read.eq(tag.read + index),
            column.apart.eq(tag.apart + index[lane_bits:]),
            column.score_first.eq(tag.score_first & first),
            column.score_last.eq(tag.score_last & (index + 1 == tag.columns)),
        ]
        if self.config.rotary_pairs:
            pair = self._pair(m, active & index[0] & ~index[columns.bit_length() - 1], tag)
            m.d.comb += column.pair.eq(pair)
        return column

    def _pair(self, m: Module, advance: Value, tag: data.View) -> Value:
        """COUNTED: the pair of the column; a column tile goes on where the one before it ended."""
        coming = self.tile.tag
        pair, first = (Signal(tag.pair.shape(), name=name) for name in ("pair", "first_pair"))
        begin = Signal.like(pair)
        m.d.comb += begin.eq(Mux(coming.begins, coming.pair, Mux(coming.repeats, first, pair)))
        with m.If(self.tile.start):
            m.d.sync += [pair.eq(begin), first.eq(begin)]
        with m.Elif(advance):
            m.d.sync += pair.eq(Mux(pair == tag.last_pair, tag.pair, pair + 1))
        return pair

    def _turned(self, m: Module, at: dict) -> Rotary:
        """ROTARY_READ to TURNED."""
        config = self.config
        m.submodules.rotary = rotary = Rotary(config.lanes, config.rotary_pairs, config.row_tiles)
        connect(m, flipped(self.rotary), rotary.write)
        m.d.comb += [
            rotary.row.eq(at[ROTARY_READ].place),
            rotary.channel.eq(Cat(at[ROTARY_READ].index[0], at[ROTARY_READ].pair)),
            rotary.u.eq(self.requantize.o),
        ]
        return rotary

    def _parameters(self, m: Module, at: dict) -> None:
        """SELECTED and DRAINED: bias, m and s of every lane."""
        n, ways = self.config.lanes, self.config.ways
        lane_bits = n.bit_length() - 1
        # A plane is stored a cycle after it came, long before a column needs it.
        planes = register(m, self.parameter.data, "parameter_data")
        # Selected in two steps, by the low bits of the column and by the others.
        low, high = (at[SELECTED - step].index for step in (1, 0))
        if ways == 1:
            stored = self._stored(m, planes)
            values = [*map(data.View.as_value, stored[0]), *map(data.View.as_value, stored[1])]
            of_half: tuple[Value, ...] = (at[SELECTED].weight_buffer,)
            second = at[DRAINED].weight_buffer
            of_lanes: list[ValueLike] = [Mux(second, b, a) for a, b in zip(*stored, strict=True)]
        else:
            # TRANSPOSED tiles have the first N channels, of each lane its own.
            word = Mux(at[SELECTED - 1].transposed, 0, low[lane_bits:])
            values = self._columns(m, planes, Cat(word, at[SELECTED - 1].weight_buffer))
            of_half = ()
            later = DRAINED - SELECTED + 1
            of_lanes = [delay(m, value, later, f"of_word_{i}") for i, value in enumerate(values)]
        of_four = [
            register(m, Array(values[four : four + 4])[low[:2]], f"of_four_{four}")
            for four in range(0, len(values), 4)
        ]
        of_column = Signal(BYTE_PLANE, reset_less=True)
        m.d.sync += of_column.eq(Array(of_four)[Cat(high[2:lane_bits], *of_half)])
        m.d.comb += self.row.buffer.eq(at[DRAINED].softmax_buffer)
        # Whose the column's parameters are, known a cycle before all lanes ask.
        kind = at[SELECTED].epilogue
        scores = register(m, kind == Kind.SCORE, "scores")
        contexts = register(m, kind == Kind.CONTEXT, "contexts")
        by_stream = register(
            m,
            (kind == Kind.INT8) | (kind == Kind.RESIDUAL) | (kind == Kind.LOGITS),
            "by_stream",
        )
        lanes = range(n)
        self._bias = [Signal(signed(32), name=f"bias_{i}", reset_less=True) for i in lanes]
        self._m = [Signal(16, name=f"m_{i}", reset_less=True) for i in lanes]
        self._s = [Signal(6, name=f"s_{i}", reset_less=True) for i in lanes]
        for i in range(n):
            of_lane = Signal(BYTE_PLANE, name=f"of_lane_{i}")
            m.d.comb += of_lane.eq(of_lanes[i])
            chosen = Signal(BYTE_PLANE, name=f"chosen_{i}")
            with m.If(by_stream):
                m.d.comb += chosen.eq(Mux(at[DRAINED].transposed, of_lane, of_column))
            with m.Elif(scores):
                m.d.comb += [
                    chosen.m.eq(self.score_multiplier.m),
                    chosen.s.eq(self.score_multiplier.s),
                ]
            with m.Elif(contexts):
                m.d.comb += [
                    chosen.m.eq(self.row.m[i]),
                    chosen.s.eq(self.row.s[i]),
                ]
            with m.Else():
                m.d.comb += [chosen.m.eq(UNIT_M), chosen.s.eq(UNIT_S)]
            m.d.sync += [
                self._bias[i].eq(chosen.bias),
                self._m[i].eq(chosen.m),
                self._s[i].eq(chosen.s),
            ]

    def _stored(self, m: Module, planes: Signal) -> list[list[Any]]:
        """With one way: bias, m and s of both halves of the N columns, in registers."""
        n = self.config.lanes
        stored = [
            [Signal(BYTE_PLANE, name=f"parameter_{half}_{i}", reset_less=True) for i in range(n)]
            for half in range(2)
        ]
        for half in range(2):
            for plane in range(PARAMETER_PLANES):
                comes = (
                    self.parameter.en
                    & (self.parameter.buffer == half)
                    & (self.parameter.plane == plane)
                )
                with m.If(register(m, comes, f"parameter_{half}_{plane}", reset=True)):
                    for i in range(n):
                        bits = stored[half][i].as_value().word_select(plane, 8)
                        m.d.sync += bits.eq(planes.word_select(i, 8))
        return stored

    def _columns(self, m: Module, planes: Signal, word: Value) -> list[Value]:
        """With several ways: bias, m and s of the N columns that begin with a tile's `word`.

        They lie in distributed RAMs, one for each lane and plane. `word` has the half above it.
        """
        parameter = self.parameter
        place = register(m, Cat(parameter.word, parameter.buffer), "parameter_place")
        found: list[list[Value]] = [[] for _ in range(self.config.lanes)]
        for plane in range(PARAMETER_PLANES):
            comes = register(
                m, parameter.en & (parameter.plane == plane), f"plane_{plane}", reset=True
            )
            for i, values in enumerate(found):
                stored = DistributedMemory(8, 2 * self.config.ways)
                m.submodules[f"parameter_{plane}_{i}"] = stored
                m.d.comb += [
                    stored.write.en.eq(comes),
                    stored.write.address.eq(place),
                    stored.write.data.eq(planes.word_select(i, 8)),
                    stored.read.address.eq(word),
                ]
                values.append(stored.read.data)
        return [Cat(*values) for values in found]

    def _residual(self, m: Module, at: dict) -> None:
        """RESIDUAL_READ, CODE: X16 is shifted, a cycle later: added and saturated, WRITTEN."""

        def writes(column: data.View) -> Value:
            return column.write & column.into_x

        # LayerNorm's read waits for these, so they are known a cycle before.
        before, ahead = at[RESIDUAL_READ - 1], at[WRITTEN - self.ahead - 1]
        reads = before.write & (before.epilogue == Kind.RESIDUAL)
        m.d.comb += [
            self.x.read_en.eq(register(m, reads, "x_read_en", reset=True)),
            self.x.read_address.eq(at[RESIDUAL_READ].read),
            self.x.write_en.eq(
                register(
                    m,
                    at[WRITTEN - 1].write & at[WRITTEN - 1].into_x,
                    "x_write_en",
                    reset=True,
                )
            ),
            self.x.write_lanes.eq(written_lanes(at[WRITTEN], self.config.lanes)),
            self.x.write_address.eq(at[WRITTEN].address),
            self.x.busy.eq(register(m, reads | writes(ahead), "x_busy", reset=True)),
        ]
        adds = register(m, at[REQUANTIZED].epilogue == Kind.RESIDUAL, "adds")
        totals: list[ValueLike] = []
        for i in range(self.config.lanes):
            x = self.x.read_data[i]
            doubled = Cat(Const(0, 1), register(m, x, f"x_{i}")).as_signed()
            halves = Signal(signed(17), name=f"halves_{i}", reset_less=True)
            m.d.sync += halves.eq(Mux(adds, doubled >> at[CODE].shift, 0))
            branch = delay(m, self.requantize.o[i], 2, f"branch_{i}")
            # round_shift(x, k) + branch = (((2 * x) >> k) + 1 + 2 * branch) >> 1, without a carry
            # between shift and sum.
            doubled_sum = halves + Cat(Const(1, 1), branch).as_signed()
            total = register(m, saturate(doubled_sum >> 1, 16), f"total_{i}")
            totals.append(delay(m, total, WRITTEN - CODE - 3, f"total_{i}"))
            chosen = Mux(at[WRITTEN - 1].gather, totals[0], totals[i])
            m.d.comb += self.x.write_data[i].eq(register(m, chosen, f"x_word_{i}"))

    def _products(self, m: Module, at: dict, wide: Value) -> list[Value]:
        """GATE_READ, CODE: the product of word and branch, a cycle later: shifted, LOOKED_UP.

        wide
            The words have 16 bits, as the latest TABLE had, and so have the results.
        """
        before, read = at[GATE_READ - 1], at[GATE_READ]
        m.d.comb += [
            self.gate.en.eq(register(m, before.write & before.gated, "gate_en", reset=True)),
            self.gate.address.eq(read.address),
            self.gate.way.eq(read.way),
        ]
        products: list[Value] = []
        for i in range(self.config.lanes):
            word: Value = self.gate.data[i]
            if self.config.precise:
                high = word.high
                word = Mux(wide, Cat(word.low, (high - word.low[-1])[:8]).as_signed(), high)
            factor = register(m, word, f"factor_{i}")
            product = register(m, factor * self.requantize.o[i], f"product_{i}")
            doubled = Cat(Const(0, 1), product).as_signed()
            halves = register(m, doubled >> at[CODE].shift, f"product_halves_{i}")
            rounded = (halves + 1) >> 1
            code = register(m, saturate(rounded, 8), f"product_code_{i}")
            if self.config.precise:
                value = register(m, saturate(rounded, 16), f"product_value_{i}")
                above = value[7:] == 0xFF  # the high half would be 128
                low = Mux(above, 127, value[:8])
                both = Cat(low, (value[8:] + (value[7] & ~above))[:8])
                code = Mux(wide, both, Cat(Const(0, 8), code))
            products.append(delay(m, code, LOOKED_UP - CODE - 2, f"product_{i}"))
        return products


def written_lanes(column: data.View, lanes: int) -> Value:
    """A bit for each lane that a column writes: all, or the one that a sequence is gathered to."""
    return Mux(column.gather, Value.cast(1) << column.lane, (1 << lanes) - 1)[:lanes]

"""The walkers: the loops of EMBED and LINEAR, and what they share with that of ATTEND."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.stream import Signature as Stream

from rtl.control.bounds import Area, offset_bits
from rtl.interface.command import BANK_SHIFT
from rtl.interface.config import Config
from rtl.interface.isa import Opcode
from rtl.interface.operation import OPERATION, fields
from rtl.interface.ports.batch import Batch
from rtl.interface.tile import Epilogue, Operand, Tile, address_bits
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.pipeline import unreset


class Length(data.StructLayout):
    """The size of a sequence: its tokens, its row tiles, and whether that is one."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "tokens": range(config.tokens + 1),
                "row_tiles": range(config.row_tiles + 1),
                "single": 1,
            }
        )


def measured(length: data.View, tokens: Value, lanes: int) -> list[Any]:
    """The assignments of a Length of so many tokens."""
    return [
        length.tokens.eq(tokens),
        length.row_tiles.eq((tokens + lanes - 1) >> lanes.bit_length() - 1),
        length.single.eq(tokens <= lanes),
    ]


class Walker(Unit):
    """Makes the tiles of one operation, one a cycle at most.

    All addresses are sums in registers; nothing is multiplied.
    """

    def __init__(self, config: Config, **more: wiring.Member) -> None:
        self.config = config
        self.width = max(address_bits(config), offset_bits(config))
        super().__init__(
            begin=In(1, "Pulse: the first tile of `operation` comes in the next cycle."),
            operation=In(OPERATION, "Stable from `begin` to `done`."),
            batch=In(Batch(config)),
            number=Out(
                range(config.row_tiles), "A sequence, out of a register; 0 between operations."
            ),
            length=In(Length(config), "Of it, in the same cycle."),
            first=In(Length(config), "Of the first two sequences, out of registers."),
            second=In(Length(config), ...),
            gathered=In(
                1, "The first token of each sequence was gathered: FIRST_TILE is their row tiles."
            ),
            weight_base=In(address_bits(config), "Address of the weight half in turn."),
            o=Out(Stream(Tile(config)), "In order; the sequencer fills in what is its own."),
            areas=Out(
                data.ArrayLayout(Area(config), 2), "What the tile reads and writes in the banks."
            ),
            passes=Out(1, "No tile is offered, the row tile of `areas` is passed."),
            half_done=Out(1, "Pulse: the tile is the last that uses the weight half."),
            done=Out(1, "Pulse: the operation's last tile is taken."),
            **more,
        )

    def start(self, m: Module) -> Signal:
        """From the cycle after `begin` to `done`."""
        running = Signal()
        with m.If(self.begin):
            m.d.sync += running.eq(1)
        with m.Elif(self.done):
            m.d.sync += running.eq(0)
        return running

    def follow(self, m: Module, restart: Value, advance: Value) -> tuple[Signal, Signal]:
        """Row tile by row tile through the batch: (tokens of the sequence from here on, next one).

        With `restart` the next cycle is at the first row tile, with `advance` at the next one.
        """
        n = self.config.lanes
        tokens_left = unreset(range(self.config.tokens + 1))
        following = unreset(range(self.config.row_tiles + 1))  # the sequence after this one
        ends = advance & (tokens_left <= n)
        coming = self.look_up(m, following, restart, ends)
        with m.If(restart):
            m.d.sync += tokens_left.eq(self.first.tokens)
        with m.Elif(ends):
            m.d.sync += tokens_left.eq(coming.tokens)
        with m.Elif(advance):
            m.d.sync += tokens_left.eq(tokens_left - n)
        return tokens_left, following

    def look_up(self, m: Module, following: Signal, restart: Value, ends: Value) -> data.View:
        """Count `following`: 1 after `restart`, one more after `ends`; its length, in a register.

        The memory of the lengths is read for the sequence after it, from register to register.
        """
        coming = unreset(Length(self.config))
        with m.If(restart):
            m.d.sync += [following.eq(1), coming.eq(self.second), self.number.eq(2)]
        with m.Elif(ends):
            m.d.sync += [
                following.eq(following + 1),
                coming.eq(self.length),
                self.number.eq(self.number + 1),
            ]
        with m.If(self.done):
            m.d.sync += self.number.eq(0)
        return coming

    def both_passes(self, m: Module, taken: Value) -> Value:
        """With WIDE a tile comes twice, for the low halves and the high ones: the second taken."""
        if not self.config.precise:
            return taken
        wide, second = self.operation.flags.wide, Signal()
        with m.If(taken):
            m.d.sync += second.eq(wide & ~second)
        m.d.comb += [self.o.payload.low.eq(wide & ~second), self.o.payload.joined.eq(second)]
        return taken & (second | ~wide)

    def bank_word(self, address: Value) -> Value:
        return bank_word(address, self.config)

    def show_areas(self, m: Module, *areas: tuple[Value, Value, Value]) -> None:
        """The tile's areas: the tensor's address in the descriptor, first word, words."""
        for area, (address, start, words) in zip(self.areas, areas, strict=True):
            m.d.comb += [
                area.used.eq(1),
                area.start.eq(start),
                area.words.eq(words),
                area.bank.eq(address[BANK_SHIFT:]),
            ]


class EmbedWalker(Walker):
    """For row tile: for column tile."""

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n, columns, tile = self.config.lanes, self.config.tile_columns, self.o.payload
        running = self.start(m)
        taken = self.o.valid & self.o.ready
        embed = fields(Opcode.EMBED, self.operation.fields)
        rows_left = unreset(self.batch.row_tiles.shape())  # with this one
        last_row = Signal()
        result, source = unreset(self.width), unreset(address_bits(self.config))
        row_start = unreset(self.width)  # result of the row tile's first column tile
        wide = embed.wide[0]
        columns_left, column_end = unreset(16), Signal()
        tokens_left, _ = self.follow(m, self.begin, taken & column_end)
        m.d.comb += [
            self.o.valid.eq(running),
            tile.a.eq(Operand.ONE_HOT),
            tile.b.eq(Operand.WEIGHT),
            tile.weights.eq(1),
            tile.b_address.eq(source),
            tile.length.eq(minimum(n, tokens_left) << Mux(wide, 2, 1)),
            tile.release.eq(column_end),
            tile.tag.epilogue.eq(Epilogue.EMBEDDING),
            tile.tag.address.eq(result),
            tile.tag.columns.eq(minimum(columns, columns_left)),
            tile.tag.row_tile_done.eq(column_end),
            self.half_done.eq(taken & column_end),
            self.done.eq(taken & column_end & last_row),
        ]
        with m.If(self.begin):
            m.d.sync += [
                rows_left.eq(self.batch.row_tiles),
                last_row.eq(self.batch.row_tiles == 1),
                result.eq(0),
                row_start.eq(0),
                source.eq(self.weight_base),
                columns_left.eq(embed.channels),
                column_end.eq(embed.channels <= columns),
            ]
        with m.Elif(taken & column_end):
            m.d.sync += [
                rows_left.eq(rows_left - 1),
                last_row.eq(rows_left == 2),
                result.eq(row_start + embed.channels),
                row_start.eq(row_start + embed.channels),
                source.eq(Mux(self.weight_base == 0, self.config.weight_words, 0)),
                columns_left.eq(embed.channels),
                column_end.eq(embed.channels <= columns),
            ]
        with m.Elif(taken):
            m.d.sync += [
                result.eq(result + columns),
                source.eq(source + Mux(wide, 4 * n, 2 * n)),
                columns_left.eq(columns_left - columns),
                column_end.eq(columns_left <= 2 * columns),
            ]
        return m


class LinearWalker(Walker):
    """For column tile: for row tile; weights are used once, in order.

    With FIRST_TILE the row tiles are the first of each sequence; those between them are passed, a
    cycle each. Sums and logits are gathered then: lane 0 of sequence s goes to lane s modulo N of
    row tile s div N. What was gathered, and what is computed of it, is a row tile for N sequences.
    With WIDE a tile comes as two, of the low halves and of the high ones. With several ways
    TRANSPOSED is `ValueWalker`'s.
    """

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        flags, row_tile = self.operation.flags, range(self.config.row_tiles + 1)
        self._linear = fields(Opcode.LINEAR, self.operation.fields)
        self._transposed = flags.transposed if self.config.ways == 1 else Const(0)
        running = self.start(m)
        taken = self.both_passes(m, self.o.valid & self.o.ready)
        self._rows, self._row = Signal(row_tile, name="rows"), unreset(row_tile, "row")
        self._address, self._result = unreset(self.width), unreset(self.width, "result")
        # Result of the column tile's first row tile, and where the sequence in turn is gathered.
        self._column_start = unreset(self.width, "column_start")
        self._gathered_result = unreset(self.width, "gathered_result")
        self._columns_left = unreset(16, "columns_left")
        # In registers, since much hangs on them.
        self._row_end, self._column_end = Signal(), Signal(name="column_end")
        again = Signal()
        tokens_left, following = self.follow(m, again, (taken & ~self._row_end) | self.passes)
        moves = taken | self.passes
        single, first, lane, present = self._first_tokens(m, again, taken, tokens_left)
        m.d.comb += [
            again.eq(self.begin | (taken & self._row_end)),
            self.o.valid.eq(running & (first | ~single)),
            self.passes.eq(running & single & ~first),
        ]
        with m.If(self.begin):
            m.d.sync += self._rows.eq(
                Mux(flags.first_tile, self.batch.gathered, self.batch.row_tiles)
            )
        self._rotary(m, again, moves, tokens_left)
        self._tile(m, taken, single, lane, present)
        last_sequence = (tokens_left <= self.config.lanes) & (following + 1 == self.batch.sequences)
        self._next_tile(m, taken, moves, single, lane, last_sequence)
        return m

    def _tile(self, m: Module, taken: Value, single: Value, lane: Value, present: Value) -> None:
        """The tile of this row and column tile; what it reads and writes."""
        n, columns, tile = self.config.lanes, self.config.tile_columns, self.o.payload
        linear, flags = self._linear, self.operation.flags
        gather = single & (flags.residual | flags.logits)
        shift, of_table = linear.shift, flags.table
        if self.config.gated:
            # It counts as a user of the table, which says how wide its words are.
            gated = linear.gate.any()
            shift, of_table = Mux(gated, linear.gate, shift), of_table | gated
            m.d.comb += tile.tag.gated.eq(gated)
        activation = Mux(flags.bank, Operand.BANK, Operand.X8)
        m.d.comb += [
            tile.row.eq(self._row),
            tile.length.eq(linear.length),
            tile.weights.eq(1),
            tile.norm.eq(~flags.bank),
            tile.release.eq(self._row_end),
            tile.tag.release.eq(self._row_end),
            tile.tag.table.eq(flags.table),
            tile.tag.transposed.eq(self._transposed),
            tile.tag.shift.eq(shift),
            tile.tag.row_tile_done.eq(
                flags.residual & self._column_end & (~single | self._row_end | (lane == n - 1))
            ),
            tile.tag.gather.eq(gather),
            tile.tag.lane.eq(lane),
            tile.tag.read.eq(self._result),
            tile.tag.table_last.eq(of_table & self._column_end & self._row_end),
            tile.tag.address.eq(Mux(gather, self._gathered_result, self._result)),
            self.half_done.eq(taken & self._row_end),
            self.done.eq(taken & self._row_end & self._column_end),
        ]
        with m.If(self._transposed):
            m.d.comb += [
                tile.a.eq(Operand.WEIGHT),
                tile.a_address.eq(self.weight_base),
                tile.b.eq(activation),
                tile.b_address.eq(self._address),
                tile.tag.columns.eq(present),
            ]
        with m.Else():
            m.d.comb += [
                tile.a.eq(activation),
                tile.a_address.eq(self._address),
                tile.b.eq(Operand.WEIGHT),
                tile.b_address.eq(self.weight_base),
                tile.tag.columns.eq(minimum(columns, self._columns_left)),
            ]
        with m.If(flags.logits):
            m.d.comb += tile.tag.epilogue.eq(Epilogue.LOGITS)
        with m.Elif(flags.residual):
            m.d.comb += tile.tag.epilogue.eq(Epilogue.RESIDUAL)
        with m.Else():
            m.d.comb += tile.tag.epilogue.eq(Epilogue.INT8)
        way = self._row[: self.config.way_bits]
        m.d.comb += [tile.a_way.eq(way), tile.tag.way.eq(way)]
        self.show_areas(
            m,
            (linear.source, self._address, tile.length),
            (linear.destination, self._result, tile.tag.columns),
        )
        for area in self.areas:
            m.d.comb += area.spans.eq((area.bank == 0) & ~self._transposed)
        m.d.comb += [
            self.areas[0].used.eq(flags.bank),
            self.areas[1].used.eq(~flags.residual & ~(flags.logits & flags.first_tile)),
            self.areas[1].logits.eq(flags.logits),
        ]

    def _next_tile(
        self, m: Module, taken: Value, moves: Value, single: Value, lane: Value, last: Value
    ) -> None:
        """The next row tile; behind the last one the first of the next column tile.

        last
            With `single`: the sequence behind this one is the last.
        """
        config, linear, flags = self.config, self._linear, self.operation.flags
        n, columns = config.lanes, config.tile_columns
        with m.If(self.begin):
            m.d.sync += [
                self._row.eq(0),
                self._row_end.eq(
                    Mux(
                        flags.first_tile,
                        Mux(self.gathered, self.batch.gathered, self.batch.sequences) == 1,
                        self.batch.row_tiles == 1,
                    )
                ),
                self._column_end.eq(linear.columns <= columns),
                self._address.eq(self.bank_word(linear.source)),
                self._result.eq(self.bank_word(linear.destination)),
                self._column_start.eq(self.bank_word(linear.destination)),
                self._gathered_result.eq(0),
                self._columns_left.eq(linear.columns),
            ]
        with m.Elif(taken & self._row_end):
            next_column = Signal(self.width)
            m.d.comb += next_column.eq(
                self._column_start + Mux(self._transposed, padded(self.batch.row_tiles, n), columns)
            )
            m.d.sync += [
                self._row.eq(0),
                self._row_end.eq(Mux(single, self.batch.sequences, self._rows) == 1),
                self._column_end.eq(self._columns_left <= 2 * columns),
                self._address.eq(self.bank_word(linear.source)),
                self._result.eq(next_column),
                self._column_start.eq(next_column),
                self._gathered_result.eq(next_column),
                self._columns_left.eq(self._columns_left - columns),
            ]
        with m.Elif(moves):
            # Row tiles lie in the ways in turn, but for those of X16 and of the logits.
            wraps = self._row[: config.way_bits] == config.ways - 1
            source_stride = Mux(wraps, linear.source_stride, 0)
            in_ways = ~flags.residual & ~flags.logits
            destination_stride = Mux(wraps | ~in_ways, linear.destination_stride, 0)
            m.d.sync += [
                self._row.eq(self._row + 1),
                self._row_end.eq(Mux(single, last, self._row + 2 == self._rows)),
                self._address.eq(self._address + source_stride),
                self._result.eq(self._result + Mux(self._transposed, n, destination_stride)),
            ]
            with m.If(taken & (lane == n - 1)):
                m.d.sync += self._gathered_result.eq(
                    self._gathered_result + linear.destination_stride
                )

    def _first_tokens(
        self, m: Module, again: Value, taken: Value, tokens_left: Value
    ) -> tuple[Signal, Signal, Signal, Signal]:
        """With FIRST_TILE: whether row tiles are passed, this one is a sequence's first, its lane.

        The fourth is how many columns there are, TRANSPOSED: of what was gathered as many as there
        are sequences.
        """
        n, first_tile = self.config.lanes, self.operation.flags.first_tile
        gathered, single, first = (Signal(name=x) for x in ("gathered", "single", "first"))
        lane, present = Signal(range(n), name="lane"), Signal(range(n + 1), name="present")
        sequences_left = unreset(self.batch.sequences.shape(), "sequences_left")
        with m.If(self.begin):
            m.d.sync += [
                gathered.eq(first_tile & self.gathered),
                single.eq(first_tile & ~self.gathered),
            ]
        with m.If(again):
            m.d.sync += [first.eq(1), lane.eq(0), sequences_left.eq(self.batch.sequences)]
        with m.Elif(taken | self.passes):
            m.d.sync += first.eq(tokens_left <= n)
            with m.If(taken & single):
                m.d.sync += lane.eq(lane + 1)
            with m.If(taken):
                m.d.sync += sequences_left.eq(sequences_left - n)
        m.d.comb += present.eq(Mux(gathered, minimum(n, sequences_left), minimum(n, tokens_left)))
        return single, first, lane, present

    def _rotary(self, m: Module, again: Value, moves: Value, tokens_left: Value) -> None:
        """With ROTARY: the place of the row tile in its sequence, and the pairs of its columns."""
        linear, tag = self._linear, self.o.payload.tag
        place, column_first = unreset(range(self.config.row_tiles)), Signal()
        with m.If(again):
            m.d.sync += [place.eq(0), column_first.eq(self.begin)]
        with m.Elif(moves):
            m.d.sync += place.eq(Mux(tokens_left <= self.config.lanes, 0, place + 1))
        m.d.comb += [
            tag.turned.eq(self.operation.flags.rotary),
            tag.place.eq(place),
            tag.pair.eq(linear.rotary),
            tag.last_pair.eq(linear.rotary + (linear.head_size >> 1) - 1),
            tag.begins.eq(column_first),
            tag.repeats.eq(self._row != 0),
        ]


class ValueWalker(Walker):
    """LINEAR with TRANSPOSED, with c ways: for N output channels: for c row tiles.

    A tile has all places of those row tiles of X8 or of a bank that lie at one address, one in each
    way; of the last ones, those that there are. With FIRST_TILE it has all row tiles, too, until
    the sequences are gathered. Word g of N channels of a place lies in way g mod c.
    """

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n, columns, ways = self.config.lanes, self.config.tile_columns, self.config.ways
        tile, flags = self.o.payload, self.operation.flags
        running = self.start(m)
        taken = self.both_passes(m, self.o.valid & self.o.ready)
        linear = fields(Opcode.LINEAR, self.operation.fields)
        rows = Signal.like(self.batch.row_tiles)
        rows_left = unreset(rows.shape())  # with those of this tile
        next_left = Signal.like(rows_left)
        row = unreset(range(self.config.row_tiles))  # the last one of the tile
        way = Signal(range(ways))
        address, result = unreset(self.width), unreset(self.width)
        column_start = unreset(self.width)  # result of the channels' first tile
        columns_left = unreset(16)
        row_end, column_end = Signal(), Signal()
        m.d.comb += [
            self.o.valid.eq(running),
            rows.eq(
                Mux(flags.first_tile & self.gathered, self.batch.gathered, self.batch.row_tiles)
            ),
            next_left.eq(rows_left - ways),
            tile.a.eq(Operand.WEIGHT),
            tile.a_address.eq(self.weight_base),
            tile.b.eq(Mux(flags.bank, Operand.BANK, Operand.X8)),
            tile.b_address.eq(address),
            tile.row.eq(row),
            tile.length.eq(linear.length),
            tile.weights.eq(1),
            tile.norm.eq(~flags.bank),
            tile.release.eq(row_end),
            tile.tag.epilogue.eq(Epilogue.INT8),
            tile.tag.release.eq(row_end),
            tile.tag.table.eq(flags.table),
            tile.tag.transposed.eq(1),
            tile.tag.table_last.eq(flags.table & column_end & row_end),
            tile.tag.address.eq(result),
            tile.tag.columns.eq(padded(minimum(ways, rows_left), n)),
            tile.tag.way.eq(way),
            self.half_done.eq(taken & row_end),
            self.done.eq(taken & row_end & column_end),
        ]
        self.show_areas(
            m,
            (linear.source, address, tile.length),
            (linear.destination, result, tile.tag.columns),
        )
        m.d.comb += self.areas[0].used.eq(flags.bank)
        with m.If(self.begin):
            m.d.sync += [
                columns_left.eq(linear.columns),
                column_end.eq(linear.columns <= n),
                result.eq(self.bank_word(linear.destination)),
                column_start.eq(self.bank_word(linear.destination)),
                way.eq(0),
            ]
        with m.Elif(taken & row_end):
            next_column = Signal(self.width)
            wraps = way == ways - 1
            m.d.comb += next_column.eq(
                column_start + Mux(wraps, padded(self.batch.row_tiles, n), 0)
            )
            m.d.sync += [
                columns_left.eq(columns_left - n),
                column_end.eq(columns_left <= 2 * n),
                result.eq(next_column),
                column_start.eq(next_column),
                way.eq(way + 1),
            ]
        with m.If(self.begin | (taken & row_end)):
            m.d.sync += [
                rows_left.eq(rows),
                row_end.eq(rows <= ways),
                row.eq(minimum(ways, rows) - 1),
                address.eq(self.bank_word(linear.source)),
            ]
        with m.Elif(taken):
            m.d.sync += [
                rows_left.eq(next_left),
                row_end.eq(next_left <= ways),
                row.eq(row + minimum(ways, next_left)),
                address.eq(address + linear.source_stride),
                result.eq(result + columns),
            ]
        return m


def bank_word(address: Value, config: Config) -> Value:
    """The word that a `command.bank_address` names: bank and offset side by side."""
    bank_bits = (config.bank_words - 1).bit_length()
    return Cat(address[:bank_bits], address[BANK_SHIFT:])


def minimum(n: int, left: Value) -> Value:
    """min(n, left), for a power of two n, in as few bits as that takes."""
    return Mux(left >= n, n, left[: n.bit_length()])


def padded(row_tiles: Value, n: int) -> Value:
    """row_tiles * n for a power of two n: the words of one column tile of V."""
    return row_tiles << n.bit_length() - 1

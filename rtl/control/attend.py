"""The walker of ATTEND: scores and context of all heads of all sequences."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data

from rtl.control.walkers import Length, Walker, minimum, padded
from rtl.interface.config import Config
from rtl.interface.isa import Opcode
from rtl.interface.operation import fields
from rtl.interface.ports.tiles import WindowSides
from rtl.interface.tile import Epilogue, Operand
from rtl.primitives.members import In
from rtl.primitives.pipeline import unreset


class AttendWalker(Walker):
    """For sequence: for head: for row tile i: scores S(i) over the key tiles, then C(i - 1).

    S0 S1 C0 S2 C1 ...: the softmax of one row tile runs beside the scores of the next. Each C finds
    what S knew of its place in the half of the softmax's double buffers that the two share.

    With c ways a tile of S has the row tiles of keys that lie at one address, one in each way. So a
    sequence that begins in row tile r skips the first r mod c words of its first tile. A tile of C
    has c words of N channels in the same way, of which it skips those of the head before.

    S(i) and C(i) have the row tiles of keys from i - ceil(before / N) to i + ceil(after / N) alone,
    and the first of them is key 0 of the softmax. With FIRST_TILE S goes on to the last row tile of
    the sequence, behind which the next one begins.
    """

    def __init__(self, config: Config) -> None:
        window = In(WindowSides(config.tokens), "From `begin` on.")
        super().__init__(config, window=window)

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        running = self.start(m)
        taken = self.o.valid & self.o.ready
        m.d.comb += self.o.valid.eq(running)
        self._attend = fields(Opcode.ATTEND, self.operation.fields)
        row_tile = unsigned(self.config.row_tiles.bit_length())
        self._place = data.StructLayout(
            {
                "offset": unsigned(self.width),  # of row tile and head, in Q and the context
                "way": range(self.config.ways),
                "tokens": range(self.config.tokens + 1),  # of the keys of S
                "low": range(self.config.row_tiles),  # row tile of the sequence with the first
                "next_row": row_tile,  # row tile in which the next sequence begins
                "head_ends": unsigned(1),  # the last row tile of its head
                "ends": unsigned(1),  # ... and of its sequence
            }
        )
        ahead = Signal(2)  # S made whose C is not
        scores_left, turn = Signal(), Signal()  # S are still to come; C is in turn
        half = Signal()  # of the next S
        held = [unreset(self._place, f"held_{number}") for number in range(2)]
        place, scored, last = self._scores(m, ~turn, taken, half)
        context_half = half ^ ahead[0]
        context, following = Signal(self._place), Signal(self._place)
        m.d.comb += [
            context.eq(Mux(context_half, held[1], held[0])),
            following.eq(Mux(context_half, held[0], held[1])),
        ]
        ends = self._context(m, context, following, context_half, turn, taken)
        with m.If(self.begin):
            m.d.sync += [half.eq(0), ahead.eq(0), scores_left.eq(1), turn.eq(0)]
        with m.Elif(taken & ~turn & scored):
            m.d.sync += [
                half.eq(~half),
                ahead.eq(ahead + 1),
                scores_left.eq(~last),
                turn.eq((ahead == 1) | last),
            ]
            for number in range(2):
                with m.If(half == number):
                    m.d.sync += held[number].eq(place)
        with m.Elif(taken & turn & ends):
            m.d.sync += [ahead.eq(ahead - 1), turn.eq(~scores_left)]
        m.d.comb += self.done.eq(taken & turn & ends & ~scores_left & (ahead == 1))
        return m

    def _scores(
        self, m: Module, turn: Value, taken: Value, half: Signal
    ) -> tuple[data.View, Value, Value]:
        """In its turn, the tile of S over a key tile; (its place, its last, the very last)."""
        config, attend, row_tile = self.config, self._attend, self.config.row_tiles.bit_length()
        columns, ways = config.tile_columns, config.ways
        self._registers()
        following = unreset(range(config.row_tiles + 1))  # the sequence after this one
        low_row = (self._first_row + self._low)[:row_tile]
        ends = self._head_ends & self._head_last
        self._score_tile(m, turn, half, low_row)
        next_row = Signal(row_tile)
        m.d.comb += next_row.eq(self._key_row + 1 if ways == 1 else self._first_row + self._rows)
        row_tile_ends = turn & taken & self._end
        sequence_ends = row_tile_ends & ends
        coming = self.look_up(m, following, self.begin, sequence_ends)
        begins = self.begin | sequence_ends
        new, start_row = Signal(Length(config)), Signal(row_tile)
        m.d.comb += [
            new.eq(Mux(self.begin, self.first, coming)),
            start_row.eq(Mux(self.begin, 0, next_row)),
        ]
        starts = self._starts(m, begins, turn & taken, start_row, next_row)
        with m.If(begins):
            self._next_sequence(m, new, start_row, starts)
        with m.Elif(row_tile_ends):
            self._next_row_tile(m)
        with m.If(begins | row_tile_ends):
            self._first_key_tile(m, begins, low_row, (new.tokens, start_row, starts[2]))
        with m.Elif(turn & taken):
            m.d.sync += [
                self._key.eq(self._key + columns),
                self._key_row.eq(self._key_row + 1),
                self._key_first.eq(0),
                self._keys.eq(self._keys + attend.stride),
                self._keys_left.eq(self._keys_left - columns),
                self._end.eq(self._keys_left <= 2 * columns),
                self._apart.eq(self._apart + ways),
            ]
        place = Signal(self._place)
        m.d.comb += [
            place.offset.eq(self._offset),
            place.way.eq(self._way),
            place.tokens.eq(self._walked),
            place.low.eq(self._low),
            place.next_row.eq(next_row),
            place.head_ends.eq(self._head_ends),
            place.ends.eq(ends),
        ]
        return place, self._end, ends & (following == self.batch.sequences)

    def _registers(self) -> None:
        """The registers of the scores' loops."""
        config, ways = self.config, self.config.ways
        columns, tokens = config.tile_columns, range(config.tokens + 1)
        row_tile = config.row_tiles.bit_length()
        # The sequence, and where it begins.
        self._tokens, self._rows = unreset(tokens, "tokens"), unreset(row_tile, "rows")
        self._first_row = unreset(row_tile, "first_row")
        # The head, its offset and its addresses in Q and K, and how many heads are left with it.
        self._head, self._heads_left = unreset(range(config.bias_heads), "head"), unreset(8)
        self._head_last = Signal(name="head_last")
        self._head_starts = [
            unreset(self.width, f"head_{name}") for name in ("offset", "query", "keys")
        ]
        # The row tile of queries, its offset without the bank and its address in Q.
        self._row, self._head_ends = unreset(row_tile, "row"), Signal(name="head_ends")
        self._offset, self._query = unreset(self.width, "offset"), unreset(self.width, "query")
        self._way = Signal(range(ways), name="way")
        # Its keys begin in the row tile `low`: their number, address of the first, row tiles and
        # tokens of the sequence from there on; `low` moves after `room` more row tiles of queries.
        self._low, self._walked = unreset(range(config.row_tiles), "low"), unreset(tokens, "walked")
        self._low_keys = unreset(self.width, "low_keys")
        self._span = unreset(range(2 * config.row_tiles + 2), "span")
        self._rest = unreset(tokens, "rest")
        self._room = unreset(range((config.tokens + config.lanes - 1) // config.lanes + 1), "room")
        # The key tile: first key, row tile or with several ways the group of them, address, and how
        # many row tiles it is behind the queries.
        self._key = unreset(range(config.tokens + columns), "key")
        self._key_row, self._keys = unreset(row_tile, "key_row"), unreset(self.width, "keys")
        self._keys_left = unreset(range(config.tokens + 1 + columns - config.lanes), "keys_left")
        self._end, self._key_first = Signal(name="key_end"), Signal(name="key_first")
        self._apart = unreset(range(config.bias_head_words), "apart")

    def _score_tile(self, m: Module, turn: Value, half: Signal, low_row: Value) -> None:
        """In its turn, the tile of S over the key tile."""
        tile, attend, ways = self.o.payload, self._attend, self.config.ways
        with m.If(turn):
            m.d.comb += [
                tile.a.eq(Operand.BANK),
                tile.a_address.eq(self._query),
                tile.a_way.eq(self._way),
                tile.b.eq(Operand.BANK),
                tile.b_address.eq(self._keys),
                tile.length.eq(attend.head_size),
                tile.tag.epilogue.eq(Epilogue.SCORE),
                tile.tag.address.eq(self._key),
                tile.tag.row.eq(self._key_row),
                tile.tag.columns.eq(minimum(self.config.tile_columns, self._keys_left)),
                tile.tag.skipped.eq(Mux(self._key_first, low_row[: self.config.way_bits], 0)),
                tile.tag.score_first.eq(self._key == 0 if ways == 1 else self._key_first),
                tile.tag.score_last.eq(self._end),
                tile.tag.softmax_buffer.eq(half),
                tile.tag.head.eq(self._head),
                tile.tag.apart.eq(self._apart),
            ]
            self.show_areas(
                m,
                (attend.query, self._query, tile.length),
                (attend.key, self._keys, tile.length),
            )

    def _starts(
        self, m: Module, begins: Value, moves: Value, start_row: Value, next_row: Value
    ) -> list[Signal]:
        """The start of the next sequence, behind the furthest key tile: offset, and in Q and K.

        With several ways what is furthest is the group of the key tile itself: the next sequence
        may begin in a later way at the same address.
        """
        attend, way_bits, several = self._attend, self.config.way_bits, self.config.ways > 1
        unseen = unreset(start_row.shape())  # the row tile, or group, that is the next furthest
        fresh = self._key_row == unseen
        query, keys = self.bank_word(attend.query), self.bank_word(attend.key)
        starts = []
        for number, (name, base) in enumerate((("offset", 0), ("query", query), ("keys", keys))):
            behind = unreset(self.width, f"behind_{name}")
            start = Signal(self.width, name=f"start_{number}")
            reached = (behind + Mux(fresh, attend.stride, 0))[: self.width]
            further = (reached + attend.stride)[: self.width]
            following = Mux(next_row[:way_bits] == 0, further, reached) if several else reached
            m.d.comb += start.eq(Mux(self.begin, base, following))
            with m.If(begins):
                m.d.sync += behind.eq(start)
            with m.Elif(moves):
                m.d.sync += behind.eq(reached)
            starts.append(start)
        with m.If(begins):
            m.d.sync += unseen.eq(start_row[way_bits:] + several)
        with m.Elif(moves):
            m.d.sync += unseen.eq(unseen + fresh)
        return starts

    def _next_sequence(
        self, m: Module, new: data.View, start_row: Value, starts: list[Signal]
    ) -> None:
        """The first row tile of queries of a sequence."""
        attend = self._attend
        m.d.sync += [
            self._tokens.eq(new.tokens),
            self._rows.eq(new.row_tiles),
            self._first_row.eq(start_row),
            self._head.eq(0),
            self._head_last.eq(attend.heads == 1),
            self._heads_left.eq(attend.heads),
            *(at.eq(start) for at, start in zip(self._head_starts, starts, strict=True)),
            self._row.eq(0),
            self._head_ends.eq(self.operation.flags.first_tile | new.single),
            self._way.eq(start_row),
            self._offset.eq(starts[0]),
            self._query.eq(starts[1]),
        ]

    def _next_row_tile(self, m: Module) -> None:
        """The next row tile of queries: behind a head's last one the first of the next head."""
        attend, one_row = self._attend, self.operation.flags.first_tile
        stride = Mux(self._way == self.config.ways - 1, attend.stride, 0)
        starts = [start + attend.head_size for start in self._head_starts]
        with m.If(self._head_ends):
            m.d.sync += [
                self._head.eq(self._head + 1),
                self._head_last.eq(self._heads_left == 2),
                self._heads_left.eq(self._heads_left - 1),
                *(at.eq(start) for at, start in zip(self._head_starts, starts, strict=True)),
                self._row.eq(0),
                self._head_ends.eq(one_row | (self._rows == 1)),
                self._way.eq(self._first_row),
                self._offset.eq(starts[0]),
                self._query.eq(starts[1]),
            ]
        with m.Else():
            m.d.sync += [
                self._row.eq(self._row + 1),
                self._head_ends.eq(self._row + 2 == self._rows),
                self._way.eq(self._way + 1),
                self._offset.eq(self._offset + stride),
                self._query.eq(self._query + stride),
            ]

    def _first_key_tile(
        self, m: Module, begins: Value, low_row: Value, sequence: tuple[Value, Value, Value]
    ) -> None:
        """The keys of the next row tile of queries, and the first tile over them.

        sequence
            With `begins`: its tokens, row tile and address in K.
        """
        n, config, attend = self.config.lanes, self.config, self._attend
        way_bits, ways = config.way_bits, config.ways
        before = (self.window.before + n - 1) >> n.bit_length() - 1
        after = (self.window.after + n - 1) >> n.bit_length() - 1
        least = Mux(self.operation.flags.first_tile, config.row_tiles, after) + 1
        moves = ~self._head_ends & (self._room == 0)
        stride = Mux(moves & (low_row[:way_bits] == ways - 1), attend.stride, 0)
        low, span, rest = (
            Signal.like(x, name=f"new_{x.name}") for x in (self._low, self._span, self._rest)
        )
        row, keys = Signal(low_row.shape(), name="new_row"), Signal(self.width, name="new_keys")
        with m.If(begins):
            m.d.comb += [
                span.eq(least),
                *(x.eq(value) for x, value in zip((rest, row, keys), sequence, strict=True)),
            ]
        with m.Elif(self._head_ends):
            m.d.comb += [
                span.eq(least),
                rest.eq(self._tokens),
                row.eq(self._first_row),
                keys.eq(self._head_starts[2] + attend.head_size),
            ]
        with m.Else():
            m.d.comb += [
                low.eq(self._low + moves),
                span.eq(self._span + ~moves),
                rest.eq(self._rest - Mux(moves, n, 0)),
                row.eq(low_row + moves),
                keys.eq(self._low_keys + stride),
            ]
        reach, skipped = padded(span, n), padded(row[:way_bits], n)
        count = Mux(rest < reach, rest, reach)
        m.d.sync += [
            self._low.eq(low),
            self._span.eq(span),
            self._rest.eq(rest),
            self._low_keys.eq(keys),
            self._room.eq(Mux(begins | self._head_ends, before, self._room - ~moves)),
            self._walked.eq(count),
            self._key.eq(-skipped),
            self._key_row.eq(row[way_bits:]),
            self._key_first.eq(1),
            self._keys.eq(keys),
            self._keys_left.eq(count + skipped),
            self._end.eq(count + skipped <= config.tile_columns),
            self._apart.eq(least - span - row[:way_bits]),
        ]

    def _context(
        self,
        m: Module,
        at: data.View,
        following: data.View,
        half: Value,
        turn: Value,
        taken: Value,
    ) -> Value:
        """In its turn, the tile of C over a column tile of V; whether it is the last one.

        following
            The place of the C after it.
        """
        n, tile, attend = self.config.lanes, self.o.payload, self._attend
        columns, ways = self.config.tile_columns, self.config.ways
        value, head_value = unreset(self.width), unreset(self.width)  # address, and its head's
        channel = unreset(self.width)  # first channel of the column tile within the head
        channels_left = unreset(16)
        end = Signal(name="channel_end")
        # With several ways: in which the head begins, whether this is its first tile, words before
        # it that are skipped; the same of the next C.
        head_way, first_tile = Signal(range(ways)), Signal()
        skipped, next_way, after_head = (
            Signal(range(ways), name=name) for name in ("skipped", "next_way", "after_head")
        )
        # V of the head's column tiles lies one after the other, a word a place.
        next_value = value + padded(self.batch.row_tiles, n)
        result = unreset(self.width)
        first = value + padded(at.low, n)  # key's word
        before = padded(skipped, n)
        with m.If(turn):
            m.d.comb += [
                tile.a.eq(Operand.P),
                tile.b.eq(Operand.BANK),
                tile.b_address.eq(first),
                tile.length.eq(at.tokens),
                tile.softmax.eq(channel == 0 if ways == 1 else first_tile),
                tile.tag.epilogue.eq(Epilogue.CONTEXT),
                tile.tag.address.eq(result),
                tile.tag.columns.eq(minimum(columns, channels_left)),
                tile.tag.softmax_buffer.eq(half),
                tile.tag.skipped.eq(skipped),
                tile.tag.way.eq(at.way),
            ]
            written = (result + before, tile.tag.columns - before)
            self.show_areas(m, (attend.value, first, tile.length), (attend.context, *written))
        words = (attend.head_size + n - 1) >> n.bit_length() - 1
        m.d.comb += [
            skipped.eq(Mux(first_tile, head_way, 0)),
            after_head.eq(head_way + words),
            next_way.eq(Mux(at.ends, 0, Mux(at.head_ends, after_head, head_way))),
        ]
        next_channels = attend.head_size + padded(next_way, n)
        next_result = following.offset - padded(next_way, n)
        with m.If(self.begin):
            m.d.sync += [head_way.eq(0), first_tile.eq(1)]
        with m.Elif(turn & taken):
            m.d.sync += first_tile.eq(end)
            with m.If(end):
                m.d.sync += head_way.eq(next_way)
        with m.If(self.begin):
            m.d.sync += [
                value.eq(self.bank_word(attend.value)),
                head_value.eq(self.bank_word(attend.value)),
                result.eq(self.bank_word(attend.context)),
                channel.eq(0),
                channels_left.eq(attend.head_size),
                end.eq(attend.head_size <= columns),
            ]
        with m.Elif(turn & taken & ~end):
            m.d.sync += [
                value.eq(next_value),
                result.eq(result + columns),
                channel.eq(channel + columns),
                channels_left.eq(channels_left - columns),
                end.eq(channels_left <= 2 * columns),
            ]
        with m.Elif(turn & taken):
            m.d.sync += [
                channel.eq(0),
                channels_left.eq(next_channels),
                end.eq(next_channels <= columns),
                result.eq(self.bank_word(attend.context) + next_result),
            ]
            with m.If(at.ends):
                behind = Cat(Const(0, n.bit_length() - 1), at.next_row)
                begins = self.bank_word(attend.value) + behind
                m.d.sync += [value.eq(begins), head_value.eq(begins)]
            with m.Elif(at.head_ends):
                head = Mux(after_head == 0, next_value, value)
                m.d.sync += [value.eq(head), head_value.eq(head)]
            with m.Else():
                m.d.sync += value.eq(head_value)
        return end

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

    Parameters
    ----------
    config
        With windows S(i) and C(i) have the row tiles of keys from i - ceil(before / N) to
        i + ceil(after / N) alone, and the first of them is key 0 of the softmax. With FIRST_TILE
        S goes on to the last row tile of the sequence, behind which the next one begins.
    """

    def __init__(self, config: Config) -> None:
        sides = (
            {"window": In(WindowSides(config.tokens), "With windows; from `begin` on.")}
            if config.windows
            else {}
        )
        super().__init__(config, **sides)

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
                **({"way": range(self.config.ways)} if self.config.ways > 1 else {}),
                "tokens": range(self.config.tokens + 1),  # of the sequence; of the keys of S
                # With windows: the row tile of the sequence whose keys are the first of S.
                **({"low": range(self.config.row_tiles)} if self.config.windows else {}),
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
        n, config, tile, attend = self.config.lanes, self.config, self.o.payload, self._attend
        columns, ways, way_bits = config.tile_columns, config.ways, config.way_bits
        one_row = self.operation.flags.first_tile
        tokens = unreset(range(config.tokens + 1))  # of the sequence
        walked = unreset(tokens.shape()) if config.windows else tokens  # of the row tile's keys
        following = unreset(range(config.row_tiles + 1))  # the sequence after it
        row, rows = unreset(config.row_tiles.bit_length()), unreset(config.row_tiles.bit_length())
        head_ends, end = Signal(), Signal(name="key_end")  # the row tile's, the key tile's
        heads_left = unreset(8)  # with this one
        # Of the row tile and of the head's first one: without the bank, and the address in Q.
        offset, head_offset = unreset(self.width), unreset(self.width)
        query, head_query = unreset(self.width), unreset(self.width)
        first_row = unreset(row.shape())  # where the sequence begins
        key = unreset(range(config.tokens + columns))
        key_row = unreset(row.shape())  # with several ways the group of row tiles
        key_first = Signal()  # with several ways
        # With windows the first row tile of the keys; else where the sequence begins.
        low = unreset(range(config.row_tiles)) if config.windows else Const(0)
        low_row = (first_row + low)[: len(row)] if config.windows else first_row
        # With a position bias: the head. Row tile of the key tile less that of the queries.
        head, apart = unreset(range(config.bias_heads)), unreset(range(config.bias_head_words))
        way = Signal(range(ways))  # of the row tile
        # Behind the key tile, and behind the sequence's first one: offset, and address in Q and K.
        # With windows behind the furthest that was taken.
        # With several ways those of the key tile itself: the next sequence may begin in a later way
        # at the same address.
        behind, first_behind = (
            [unreset(self.width, f"{name}_{of}") for of in ("offset", "query", "keys")]
            for name in ("behind", "first_behind")
        )
        if config.windows:
            first_behind = []
        keys, head_keys = unreset(self.width), unreset(self.width)  # and the head's first key tile
        keys_left = unreset(range(config.tokens + 1 + columns - n))
        head_last = Signal()
        ends = head_ends & head_last
        with m.If(turn):
            m.d.comb += [
                tile.a.eq(Operand.BANK),
                tile.a_address.eq(query),
                tile.b.eq(Operand.BANK),
                tile.b_address.eq(keys),
                tile.length.eq(attend.head_size),
                tile.tag.epilogue.eq(Epilogue.SCORE),
                tile.tag.address.eq(key),
                tile.tag.row.eq(key_row),
                tile.tag.columns.eq(minimum(columns, keys_left)),
                tile.tag.score_first.eq(key == 0 if ways == 1 else key_first),
                tile.tag.score_last.eq(end),
                tile.tag.softmax_buffer.eq(half),
            ]
            if config.bias_heads:
                m.d.comb += tile.tag.head.eq(head)
            if config.has_apart:
                m.d.comb += tile.tag.apart.eq(apart)
            self.show_areas(m, (attend.query, query, tile.length), (attend.key, keys, tile.length))
            if ways > 1:
                m.d.comb += [
                    tile.a_way.eq(way),
                    tile.tag.skipped.eq(Mux(key_first, low_row[:way_bits], 0)),
                ]
        next_row = Signal.like(row)
        m.d.comb += next_row.eq(key_row + 1 if ways == 1 else first_row + rows)
        sequence_ends = turn & taken & end & ends
        coming = self.look_up(m, following, self.begin, sequence_ends)

        reached, unseen = behind, unreset(row.shape())
        if config.windows:
            fresh = key_row == unseen
            reached = [(last + Mux(fresh, attend.stride, 0))[: self.width] for last in behind]

        # Where a sequence begins, and one stride further; chosen before it is known whether.
        bases = (0, self.bank_word(attend.query), self.bank_word(attend.key))
        starts, furthers = (
            [Signal(self.width, name=f"{name}_{number}") for number in range(3)]
            for name in ("start", "further")
        )
        for start, further, base, last in zip(starts, furthers, bases, reached, strict=True):
            if ways == 1:
                m.d.comb += [
                    start.eq(Mux(self.begin, base, last)),
                    further.eq(start + attend.stride),
                ]
            else:
                begun = Mux(next_row[:way_bits] == 0, further, last)
                m.d.comb += [
                    start.eq(Mux(self.begin, base, begun)),
                    further.eq(last + attend.stride),
                ]

        new = Signal(Length(config))
        m.d.comb += new.eq(Mux(self.begin, self.first, coming))
        with m.If(self.begin | sequence_ends):
            # The next sequence begins behind the last key tile of this one.
            start_row = Signal.like(row)
            with m.If(~self.begin):
                m.d.comb += start_row.eq(next_row)
            of_first, of_key, skipped = furthers, start_row, Const(0)
            if ways > 1:
                of_first, of_key = starts, start_row[way_bits:]
                skipped = padded(start_row[:way_bits], n)
                m.d.sync += [key_first.eq(1), way.eq(start_row)]
            m.d.sync += [
                tokens.eq(new.tokens),
                keys_left.eq(new.tokens + skipped if ways > 1 else new.tokens),
                end.eq(new.single if ways == 1 else new.row_tiles + start_row[:way_bits] <= ways),
                rows.eq(new.row_tiles),
                head_ends.eq(one_row | new.single),
                head_last.eq(attend.heads == 1),
                heads_left.eq(attend.heads),
                row.eq(0),
                key.eq(0 if ways == 1 else -skipped),
                first_row.eq(start_row),
                key_row.eq(of_key),
                *(s.eq(starts[0]) for s in (offset, head_offset)),
                *(s.eq(starts[1]) for s in (query, head_query)),
                *(s.eq(starts[2]) for s in (keys, head_keys)),
                *(s.eq(first) for s, first in zip(behind, of_first, strict=True)),
                *(s.eq(x) for s, x in zip(first_behind, of_first)),
            ]
            if config.bias_heads:
                m.d.sync += [head.eq(0), apart.eq(-start_row[:way_bits])]
        with m.Elif(turn & taken & end):
            stride, all_keys = attend.stride, tokens
            of_key, skipped = first_row, Const(0)
            if ways > 1:
                of_key, skipped = first_row[way_bits:], padded(first_row[:way_bits], n)
                all_keys = tokens + skipped
                stride = Mux(way == ways - 1, stride, 0)
                m.d.sync += [
                    key_first.eq(1),
                    way.eq(Mux(head_ends, first_row, way + 1)),
                ]
            m.d.sync += [
                key.eq(0 if ways == 1 else -skipped),
                key_row.eq(of_key),
                *(s.eq(first) for s, first in zip(behind, first_behind)),
                keys_left.eq(all_keys),
                end.eq(all_keys <= columns),
            ]
            if config.bias_heads:
                begun = -first_row[:way_bits]
                m.d.sync += [
                    head.eq(head + head_ends),
                    apart.eq(Mux(head_ends, begun, begun - 1 - row)),
                ]
            with m.If(head_ends):
                m.d.sync += [
                    row.eq(0),
                    head_ends.eq(one_row | (rows == 1)),
                    heads_left.eq(heads_left - 1),
                    head_last.eq(heads_left == 2),
                    *(s.eq(head_offset + attend.head_size) for s in (offset, head_offset)),
                    *(s.eq(head_query + attend.head_size) for s in (query, head_query)),
                    *(s.eq(head_keys + attend.head_size) for s in (keys, head_keys)),
                ]
            with m.Else():
                m.d.sync += [
                    row.eq(row + 1),
                    head_ends.eq(row + 2 == rows),
                    offset.eq(offset + stride),
                    query.eq(query + stride),
                    keys.eq(head_keys),
                ]
        with m.Elif(turn & taken):
            m.d.sync += [
                key.eq(key + columns),
                key_row.eq(next_row if ways == 1 else key_row + 1),
                *(s.eq(further) for s, further in zip(behind, furthers, strict=True)),
                keys.eq(keys + attend.stride),
                keys_left.eq(keys_left - columns),
                end.eq(keys_left <= 2 * columns),
            ]
            if ways > 1:
                m.d.sync += key_first.eq(0)
            if config.has_apart:
                m.d.sync += apart.eq(apart + ways)
        if config.windows:
            begins = self.begin | sequence_ends
            start_row = Mux(self.begin, 0, next_row)
            # Before the first row tile of the queries, behind it, and how many of keys it has.
            before = (self.window.before + n - 1) >> n.bit_length() - 1
            after = (self.window.after + n - 1) >> n.bit_length() - 1
            least = Mux(one_row, config.row_tiles, after) + 1
            room = unreset(before.shape())  # queries may come so far until `low` moves
            span = unreset(range(2 * config.row_tiles + 2))  # row tiles from `low` on, at most
            rest = unreset(tokens.shape())  # tokens from `low` on
            low_keys = unreset(self.width)  # address of `low`
            moves = ~head_ends & (room == 0)
            stride = Mux(moves, attend.stride, 0)
            if ways > 1:
                stride = Mux(low_row[:way_bits] == ways - 1, stride, 0)
            # Of the next row tile of queries.
            new_low, new_span, new_rest = (Signal.like(x) for x in (low, span, rest))
            new_row, new_keys = Signal.like(row), Signal.like(keys)
            with m.If(begins):
                m.d.comb += [
                    new_span.eq(least),
                    new_rest.eq(new.tokens),
                    new_row.eq(start_row),
                    new_keys.eq(starts[2]),
                ]
            with m.Elif(head_ends):
                m.d.comb += [
                    new_span.eq(least),
                    new_rest.eq(tokens),
                    new_row.eq(first_row),
                    new_keys.eq(head_keys + attend.head_size),
                ]
            with m.Else():
                m.d.comb += [
                    new_low.eq(low + moves),
                    new_span.eq(span + ~moves),
                    new_rest.eq(rest - Mux(moves, n, 0)),
                    new_row.eq(low_row + moves),
                    new_keys.eq(low_keys + stride),
                ]
            reach, skipped = padded(new_span, n), padded(new_row[:way_bits], n)
            count = Mux(new_rest < reach, new_rest, reach)
            with m.If(begins | (turn & taken & end)):
                m.d.sync += [
                    low.eq(new_low),
                    span.eq(new_span),
                    rest.eq(new_rest),
                    low_keys.eq(new_keys),
                    room.eq(Mux(begins | head_ends, before, room - ~moves)),
                    walked.eq(count),
                    key.eq(-skipped),
                    key_row.eq(new_row[way_bits:]),
                    keys.eq(new_keys),
                    keys_left.eq(count + skipped),
                    end.eq(count + skipped <= columns),
                    apart.eq(least - new_span - new_row[:way_bits]),
                ]
            with m.If(begins):
                m.d.sync += unseen.eq(start_row[way_bits:] + (ways > 1))
                m.d.sync += [s.eq(x) for s, x in zip(behind, starts)]
            with m.Elif(turn & taken):
                m.d.sync += unseen.eq(unseen + fresh)
                m.d.sync += [s.eq(x) for s, x in zip(behind, reached)]
        place = Signal(self._place)
        m.d.comb += [
            place.offset.eq(offset),
            *([place.way.eq(way)] if ways > 1 else []),
            place.tokens.eq(walked),
            *([place.low.eq(low)] if config.windows else []),
            place.next_row.eq(next_row),
            place.head_ends.eq(head_ends),
            place.ends.eq(ends),
        ]
        return place, end, ends & (following == self.batch.sequences)

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
        first = value + padded(at.low, n) if self.config.windows else value  # key's word
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
            ]
            written = (result, tile.tag.columns)
            if ways > 1:
                before = padded(skipped, n)
                written = (result + before, tile.tag.columns - before)
                m.d.comb += [
                    skipped.eq(Mux(first_tile, head_way, 0)),
                    tile.tag.skipped.eq(skipped),
                    tile.tag.way.eq(at.way),
                ]
            self.show_areas(m, (attend.value, first, tile.length), (attend.context, *written))
        words = (attend.head_size + n - 1) >> n.bit_length() - 1
        next_channels, next_result = attend.head_size, following.offset
        if ways > 1:
            m.d.comb += [
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
                head = next_value if ways == 1 else Mux(after_head == 0, next_value, value)
                m.d.sync += [value.eq(head), head_value.eq(head)]
            with m.Else():
                m.d.sync += value.eq(head_value)
        return end

"""The walker of ATTEND: scores and context of all heads of all sequences."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data

from rtl.control.walkers import Length, Walker, minimum, padded
from rtl.interface.command import Opcode
from rtl.interface.operation import fields
from rtl.interface.tile import Epilogue, Operand
from rtl.primitives.pipeline import unreset


class AttendWalker(Walker):
    """For sequence: for head: for row tile i: scores S(i) over the key tiles, then C(i - 1).

    S0 S1 C0 S2 C1 ...: the softmax of one row tile runs beside the scores of the next. Each C finds
    what S knew of its place in the half of the softmax's double buffers that the two share.
    """

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
                "tokens": range(self.config.tokens + 1),  # of the sequence
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
        one_row = self.operation.flags.first_tile
        tokens = unreset(range(config.tokens + 1))  # of the sequence
        following = unreset(range(config.row_tiles + 1))  # the sequence after it
        row, rows = unreset(config.row_tiles.bit_length()), unreset(config.row_tiles.bit_length())
        head_ends, end = Signal(), Signal(name="key_end")  # the row tile's, the key tile's
        heads_left = unreset(8)  # with this one
        # Of the row tile and of the head's first one: without the bank, and the address in Q.
        offset, head_offset = unreset(self.width), unreset(self.width)
        query, head_query = unreset(self.width), unreset(self.width)
        first_row = unreset(row.shape())  # where the sequence begins
        key = unreset(range(config.tokens + n))
        key_row = unreset(row.shape())
        # Behind the key tile, and behind the sequence's first one: offset, and address in Q and K.
        behind, first_behind = (
            [unreset(self.width, f"{name}_{of}") for of in ("offset", "query", "keys")]
            for name in ("behind", "first_behind")
        )
        keys, head_keys = unreset(self.width), unreset(self.width)  # and the head's first key tile
        keys_left = unreset(range(config.tokens + 1))
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
                tile.tag.columns.eq(minimum(n, keys_left)),
                tile.tag.score_first.eq(key == 0),
                tile.tag.score_last.eq(end),
                tile.tag.softmax_buffer.eq(half),
            ]
            self.show_areas(m, (attend.query, query, tile.length), (attend.key, keys, tile.length))
        next_row = Signal.like(row)
        m.d.comb += next_row.eq(key_row + 1)
        sequence_ends = turn & taken & end & ends
        coming = self.look_up(m, following, self.begin, sequence_ends)

        # Where a sequence begins, and one stride further; chosen before it is known whether.
        bases = (0, self.bank_word(attend.query), self.bank_word(attend.key))
        starts, furthers = (
            [Signal(self.width, name=f"{name}_{number}") for number in range(3)]
            for name in ("start", "further")
        )
        for start, further, base, last in zip(starts, furthers, bases, behind, strict=True):
            m.d.comb += [
                start.eq(Mux(self.begin, base, last)),
                further.eq(start + attend.stride),
            ]

        new = Signal(Length(config))
        m.d.comb += new.eq(Mux(self.begin, self.first, coming))
        with m.If(self.begin | sequence_ends):
            # The next sequence begins behind the last key tile of this one.
            start_row = Signal.like(row)
            with m.If(~self.begin):
                m.d.comb += start_row.eq(next_row)
            m.d.sync += [
                tokens.eq(new.tokens),
                keys_left.eq(new.tokens),
                end.eq(new.single),
                rows.eq(new.row_tiles),
                head_ends.eq(one_row | new.single),
                head_last.eq(attend.heads == 1),
                heads_left.eq(attend.heads),
                *(signal.eq(0) for signal in (row, key)),
                *(signal.eq(start_row) for signal in (first_row, key_row)),
                *(s.eq(starts[0]) for s in (offset, head_offset)),
                *(s.eq(starts[1]) for s in (query, head_query)),
                *(s.eq(starts[2]) for s in (keys, head_keys)),
                *(s.eq(further) for s, further in zip(behind, furthers, strict=True)),
                *(s.eq(further) for s, further in zip(first_behind, furthers, strict=True)),
            ]
        with m.Elif(turn & taken & end):
            m.d.sync += [
                key.eq(0),
                key_row.eq(first_row),
                *(s.eq(first) for s, first in zip(behind, first_behind, strict=True)),
                keys_left.eq(tokens),
                end.eq(tokens <= n),
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
                    offset.eq(offset + attend.stride),
                    query.eq(query + attend.stride),
                    keys.eq(head_keys),
                ]
        with m.Elif(turn & taken):
            m.d.sync += [
                key.eq(key + n),
                key_row.eq(next_row),
                *(s.eq(further) for s, further in zip(behind, furthers, strict=True)),
                keys.eq(keys + attend.stride),
                keys_left.eq(keys_left - n),
                end.eq(keys_left <= 2 * n),
            ]
        place = Signal(self._place)
        m.d.comb += [
            place.offset.eq(offset),
            place.tokens.eq(tokens),
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
        value, head_value = unreset(self.width), unreset(self.width)  # address, and its head's
        channel = unreset(self.width)  # first channel of the column tile within the head
        channels_left = unreset(16)
        end = Signal(name="channel_end")
        # V of the head's column tiles lies one after the other, a word a place.
        next_value = value + padded(self.batch.row_tiles, n)
        result = unreset(self.width)
        with m.If(turn):
            m.d.comb += [
                tile.a.eq(Operand.P),
                tile.b.eq(Operand.BANK),
                tile.b_address.eq(value),
                tile.length.eq(at.tokens),
                tile.softmax.eq(channel == 0),
                tile.tag.epilogue.eq(Epilogue.CONTEXT),
                tile.tag.address.eq(result),
                tile.tag.columns.eq(minimum(n, channels_left)),
                tile.tag.softmax_buffer.eq(half),
            ]
            self.show_areas(
                m,
                (attend.value, value, tile.length),
                (attend.context, result, tile.tag.columns),
            )
        with m.If(self.begin):
            m.d.sync += [
                value.eq(self.bank_word(attend.value)),
                head_value.eq(self.bank_word(attend.value)),
                result.eq(self.bank_word(attend.context)),
                channel.eq(0),
                channels_left.eq(attend.head_size),
                end.eq(attend.head_size <= n),
            ]
        with m.Elif(turn & taken & ~end):
            m.d.sync += [
                value.eq(next_value),
                result.eq(result + n),
                channel.eq(channel + n),
                channels_left.eq(channels_left - n),
                end.eq(channels_left <= 2 * n),
            ]
        with m.Elif(turn & taken):
            m.d.sync += [
                channel.eq(0),
                channels_left.eq(attend.head_size),
                end.eq(attend.head_size <= n),
                result.eq(self.bank_word(attend.context) + following.offset),
            ]
            with m.If(at.ends):
                first = Cat(Const(0, n.bit_length() - 1), at.next_row)
                begins = self.bank_word(attend.value) + first
                m.d.sync += [value.eq(begins), head_value.eq(begins)]
            with m.Elif(at.head_ends):
                m.d.sync += [value.eq(next_value), head_value.eq(next_value)]
            with m.Else():
                m.d.sync += value.eq(head_value)
        return end

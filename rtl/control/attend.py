"""The walker of ATTEND: scores and context of all heads of all sequences."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data

from rtl.control.walkers import Walker, minimum, padded
from rtl.interface.command import Opcode
from rtl.interface.operation import fields
from rtl.interface.tile import Epilogue, Operand


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
        held = [Signal(self._place, name=f"held_{number}") for number in range(2)]
        place, scored, last = self._scores(m, ~turn, taken, half)
        context_half = half ^ ahead[0]
        context = Signal(self._place)
        m.d.comb += context.eq(Mux(context_half, held[1], held[0]))
        ends = self._context(m, context, context_half, turn, taken)
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
        bits = n.bit_length() - 1
        tokens = Signal(range(config.tokens + 1))  # of the sequence
        following = Signal(range(config.row_tiles + 1))  # the sequence after it
        first_row = Signal(config.row_tiles.bit_length())  # its first row tile
        first_offset = Signal(self.width)  # and that one's offset
        row = Signal(config.row_tiles.bit_length())  # within the sequence
        row_offset = Signal(self.width)
        head, head_offset = Signal(8), Signal(self.width)
        key = Signal(range(config.tokens + n))
        key_row = Signal(config.row_tiles.bit_length())
        key_offset = Signal(self.width)
        keys_left = Signal(range(config.tokens + 1))
        end = keys_left <= n
        row_tiles = (tokens + n - 1) >> bits
        head_ends = self.operation.flags.first_tile | (row + 1 == row_tiles)
        ends = Signal()
        m.d.comb += ends.eq(head_ends & (head + 1 == attend.heads))
        query, keys = Signal(self.width), Signal(self.width)
        m.d.comb += [
            query.eq(self.bank_word(attend.query) + (row_offset + head_offset)),
            keys.eq(self.bank_word(attend.key) + (key_offset + head_offset)),
        ]
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
        next_row, next_offset = Signal.like(key_row), Signal(self.width)
        m.d.comb += [
            next_row.eq(key_row + 1),
            next_offset.eq(key_offset + attend.stride),
            self.number.eq(Mux(self.begin, 0, following)),
        ]
        with m.If(self.begin):
            m.d.sync += [
                *(signal.eq(0) for signal in (first_row, first_offset, row, row_offset)),
                *(signal.eq(0) for signal in (head, head_offset, key, key_row, key_offset)),
                tokens.eq(self.tokens),
                keys_left.eq(self.tokens),
                following.eq(1),
            ]
        with m.Elif(turn & taken & ~end):
            m.d.sync += [
                key.eq(key + n),
                key_row.eq(next_row),
                key_offset.eq(next_offset),
                keys_left.eq(keys_left - n),
            ]
        with m.Elif(turn & taken & ends):
            # The next sequence begins behind the last key tile of this one.
            m.d.sync += [
                *(signal.eq(0) for signal in (row, head, head_offset, key)),
                *(signal.eq(next_row) for signal in (first_row, key_row)),
                *(signal.eq(next_offset) for signal in (first_offset, row_offset, key_offset)),
                tokens.eq(self.tokens),
                keys_left.eq(self.tokens),
                following.eq(following + 1),
            ]
        with m.Elif(turn & taken):
            m.d.sync += [
                key.eq(0),
                key_row.eq(first_row),
                key_offset.eq(first_offset),
                keys_left.eq(tokens),
            ]
            with m.If(head_ends):
                m.d.sync += [
                    row.eq(0),
                    row_offset.eq(first_offset),
                    head.eq(head + 1),
                    head_offset.eq(head_offset + attend.head_size),
                ]
            with m.Else():
                m.d.sync += [row.eq(row + 1), row_offset.eq(row_offset + attend.stride)]
        place = Signal(self._place)
        m.d.comb += [
            place.offset.eq(row_offset + head_offset),
            place.tokens.eq(tokens),
            place.next_row.eq(next_row),
            place.head_ends.eq(head_ends),
            place.ends.eq(ends),
        ]
        return place, end, ends & (following == self.batch.sequences)

    def _context(self, m: Module, at: data.View, half: Value, turn: Value, taken: Value) -> Value:
        """In its turn, the tile of C over a column tile of V; whether it is the last one."""
        n, tile, attend = self.config.lanes, self.o.payload, self._attend
        value_offset, head_value = Signal(self.width), Signal(self.width)  # this one's, its head's
        channel = Signal(self.width)  # first channel of the column tile within the head
        channels_left = Signal(16)
        end = channels_left <= n
        # V of the head's column tiles lies one after the other, a word a place.
        next_value = value_offset + padded(self.batch.row_tiles, n)
        value, result = Signal(self.width), Signal(self.width)
        m.d.comb += [
            value.eq(self.bank_word(attend.value) + value_offset),
            result.eq(self.bank_word(attend.context) + at.offset + channel),
        ]
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
                value_offset.eq(0),
                head_value.eq(0),
                channel.eq(0),
                channels_left.eq(attend.head_size),
            ]
        with m.Elif(turn & taken & ~end):
            m.d.sync += [
                value_offset.eq(next_value),
                channel.eq(channel + n),
                channels_left.eq(channels_left - n),
            ]
        with m.Elif(turn & taken):
            m.d.sync += [channel.eq(0), channels_left.eq(attend.head_size)]
            with m.If(at.ends):
                begins = Cat(Const(0, n.bit_length() - 1), at.next_row)
                m.d.sync += [value_offset.eq(begins), head_value.eq(begins)]
            with m.Elif(at.head_ends):
                m.d.sync += [value_offset.eq(next_value), head_value.eq(next_value)]
            with m.Else():
                m.d.sync += value_offset.eq(head_value)
        return end

"""The walker of ATTEND: scores and context of all heads."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Signal, Value, unsigned
from amaranth.lib import data

from rtl.control.walkers import Walker, minimum, padded
from rtl.interface.command import Opcode
from rtl.interface.operation import fields
from rtl.interface.tile import Epilogue, Operand


class AttendWalker(Walker):
    """For head: for row tile i: scores S(i) over the key tiles, then context C(i - 1).

    S0 S1 C0 S2 C1 ...: the softmax of one row tile runs beside the scores of the next.
    """

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        taken, self._rows = self.start(m)
        self._attend = attend = fields(Opcode.ATTEND, self.operation.fields)
        # Where the next S and the next C stand: row tile, offsets of row tile and head, and which
        # half of the softmax's double buffers they use.
        place = data.StructLayout(
            {
                "row": unsigned(self.config.row_tiles.bit_length()),
                "row_offset": unsigned(self.width),
                "head": unsigned(8),
                "head_offset": unsigned(self.width),
                "half": unsigned(1),
            }
        )
        scores, context = Signal(place), Signal(place)
        ahead = Signal(2)  # S made whose C is not
        scores_left, turn = Signal(), Signal()  # S are still to come; C is in turn
        scored = self._scores(m, scores, ~turn, taken)
        ends = self._context(m, context, turn, taken)
        last = (scores.row + 1 == self._rows) & (scores.head + 1 == attend.heads)
        with m.If(self.begin):
            m.d.sync += [
                scores.eq(0),
                context.eq(0),
                ahead.eq(0),
                scores_left.eq(1),
                turn.eq(0),
            ]
        with m.Elif(taken & ~turn & scored):
            self._step(m, scores)
            m.d.sync += [
                ahead.eq(ahead + 1),
                scores_left.eq(~last),
                turn.eq((ahead == 1) | last),
            ]
        with m.Elif(taken & turn & ends):
            self._step(m, context)
            m.d.sync += [ahead.eq(ahead - 1), turn.eq(~scores_left)]
        m.d.comb += self.done.eq(taken & turn & ends & ~scores_left & (ahead == 1))
        return m

    def _step(self, m: Module, at: data.View) -> None:
        """To the next row tile, or to the next head's first."""
        m.d.sync += at.half.eq(~at.half)
        with m.If(at.row + 1 == self._rows):
            m.d.sync += [
                at.row.eq(0),
                at.row_offset.eq(0),
                at.head.eq(at.head + 1),
                at.head_offset.eq(at.head_offset + self._attend.head_size),
            ]
        with m.Else():
            m.d.sync += [
                at.row.eq(at.row + 1),
                at.row_offset.eq(at.row_offset + self._attend.stride),
            ]

    def _scores(self, m: Module, at: data.View, turn: Value, taken: Value) -> Value:
        """In its turn, the tile of S over a key tile; whether it is the last one."""
        n, tile, attend = self.config.lanes, self.o.payload, self._attend
        key = Signal(range(self.config.tokens + n))
        key_offset = Signal(self.width)
        keys_left = Signal(range(self.config.tokens + 1))
        end = keys_left <= n
        query, keys = Signal(self.width), Signal(self.width)
        m.d.comb += [
            query.eq(self.bank_word(attend.query) + (at.row_offset + at.head_offset)),
            keys.eq(self.bank_word(attend.key) + (key_offset + at.head_offset)),
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
                tile.tag.columns.eq(minimum(n, keys_left)),
                tile.tag.score_first.eq(key == 0),
                tile.tag.score_last.eq(end),
                tile.tag.softmax_buffer.eq(at.half),
            ]
            self.show_areas(m, (attend.query, query, tile.length), (attend.key, keys, tile.length))
        with m.If(turn & taken):
            m.d.sync += [
                key.eq(key + n),
                key_offset.eq(key_offset + attend.stride),
                keys_left.eq(keys_left - n),
            ]
        with m.If(self.begin | (turn & taken & end)):
            m.d.sync += [key.eq(0), key_offset.eq(0), keys_left.eq(self.sequence.tokens)]
        return end

    def _context(self, m: Module, at: data.View, turn: Value, taken: Value) -> Value:
        """In its turn, the tile of C over a column tile of V; whether it is the last one."""
        n, tile, attend = self.config.lanes, self.o.payload, self._attend
        value_offset, head_value = Signal(self.width), Signal(self.width)  # this one's, its head's
        channel = Signal(self.width)  # first channel of the column tile within the head
        channels_left = Signal(16)
        end = channels_left <= n
        # V of the head's column tiles lies one after the other, a word a token.
        next_value = value_offset + padded(self.sequence.row_tiles, n)
        value, result = Signal(self.width), Signal(self.width)
        m.d.comb += [
            value.eq(self.bank_word(attend.value) + value_offset),
            result.eq(self.bank_word(attend.context) + (at.row_offset + at.head_offset) + channel),
        ]
        with m.If(turn):
            m.d.comb += [
                tile.a.eq(Operand.P),
                tile.b.eq(Operand.BANK),
                tile.b_address.eq(value),
                tile.length.eq(self.sequence.tokens),
                tile.softmax.eq(channel == 0),
                tile.tag.epilogue.eq(Epilogue.CONTEXT),
                tile.tag.address.eq(result),
                tile.tag.columns.eq(minimum(n, channels_left)),
                tile.tag.softmax_buffer.eq(at.half),
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
            with m.If(at.row + 1 == self._rows):
                m.d.sync += [value_offset.eq(next_value), head_value.eq(next_value)]
            with m.Else():
                m.d.sync += value_offset.eq(head_value)
        return end

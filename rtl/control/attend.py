"""The walker of ATTEND: scores and context of all heads."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value, unsigned
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
        # Where the next S and the next C stand: row tile, whether it is the head's last, which half
        # of the softmax's double buffers they use, and the addresses of the row tile and of the
        # head's first one, in Q for S and in the context for C.
        place = data.StructLayout(
            {
                "row": unsigned(self.config.row_tiles.bit_length()),
                "row_end": unsigned(1),
                "row_address": unsigned(self.width),
                "head": unsigned(8),
                "head_address": unsigned(self.width),
                "half": unsigned(1),
            }
        )
        scores, context = Signal(place), Signal(place)
        ahead = Signal(2)  # S made whose C is not
        scores_left, turn = Signal(), Signal()  # S are still to come; C is in turn
        scored = self._scores(m, scores, ~turn, taken)
        ends = self._context(m, context, turn, taken)
        last = scores.row_end & (scores.head + 1 == attend.heads)
        one_row = self.operation.flags.first_tile | (self.sequence.row_tiles == 1)
        for at, tensor in ((scores, attend.query), (context, attend.context)):
            with m.If(self.begin):
                m.d.sync += [
                    at.eq(0),
                    at.row_end.eq(one_row),
                    at.row_address.eq(self.bank_word(tensor)),
                    at.head_address.eq(self.bank_word(tensor)),
                ]
        with m.If(self.begin):
            m.d.sync += [
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
        m.d.sync += [at.half.eq(~at.half), at.row_address.eq(self._next_address(at))]
        with m.If(at.row_end):
            m.d.sync += [
                at.row.eq(0),
                at.row_end.eq(self._rows == 1),
                at.head.eq(at.head + 1),
                at.head_address.eq(self._next_address(at)),
            ]
        with m.Else():
            m.d.sync += [at.row.eq(at.row + 1), at.row_end.eq(at.row + 2 == self._rows)]

    def _next_address(self, at: data.View) -> Value:
        """The row tile's that follows."""
        return Mux(
            at.row_end,
            at.head_address + self._attend.head_size,
            at.row_address + self._attend.stride,
        )

    def _scores(self, m: Module, at: data.View, turn: Value, taken: Value) -> Value:
        """In its turn, the tile of S over a key tile; whether it is the last one."""
        n, tile, attend = self.config.lanes, self.o.payload, self._attend
        key = Signal(range(self.config.tokens + n))
        keys_left = Signal(range(self.config.tokens + 1))
        end = Signal(name="key_end")
        query, keys = at.row_address, Signal(self.width)
        head_keys = Signal(self.width)  # address of the head's first key tile
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
                keys.eq(keys + attend.stride),
                keys_left.eq(keys_left - n),
                end.eq(keys_left <= 2 * n),
            ]
        with m.If(self.begin | (turn & taken & end)):
            first = Signal(self.width)
            with m.If(self.begin):
                m.d.comb += first.eq(self.bank_word(attend.key))
            with m.Else():
                m.d.comb += first.eq(head_keys + Mux(at.row_end, attend.head_size, 0))
            m.d.sync += [
                key.eq(0),
                keys.eq(first),
                head_keys.eq(first),
                keys_left.eq(self.sequence.tokens),
                end.eq(self.sequence.tokens <= n),
            ]
        return end

    def _context(self, m: Module, at: data.View, turn: Value, taken: Value) -> Value:
        """In its turn, the tile of C over a column tile of V; whether it is the last one."""
        n, tile, attend = self.config.lanes, self.o.payload, self._attend
        value, head_value = (
            Signal(self.width),
            Signal(self.width),
        )  # address of this one, its head's
        channel = Signal(self.width)  # first channel of the column tile within the head
        channels_left = Signal(16)
        end = Signal(name="channel_end")
        # V of the head's column tiles lies one after the other, a word a token.
        next_value = value + padded(self.sequence.row_tiles, n)
        result = Signal(self.width)
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
                result.eq(self._next_address(at)),
            ]
            with m.If(at.row_end):
                m.d.sync += [value.eq(next_value), head_value.eq(next_value)]
            with m.Else():
                m.d.sync += value.eq(head_value)
        return end

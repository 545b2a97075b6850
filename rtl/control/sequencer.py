"""The sequencer: turns operations into tiles, in the order in which the array computes them."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.interface.command import Opcode
from rtl.interface.config import Config
from rtl.interface.operation import OPERATION, fields
from rtl.interface.ports import Factors, Multiplier, Region, Sequence
from rtl.interface.tile import Epilogue, Operand, Tile, address_bits
from rtl.primitives.queues import OneDeepQueue, SkidBuffer


class Sequencer(wiring.Component):
    """The loops of EMBED, LINEAR and ATTEND; one tile a cycle at most.

    ::

        EMBED    for row tile:     for column tile
        LINEAR   for column tile:  for row tile             (weights are used once, in order)
        ATTEND   for head: for row tile i:  scores S(i) over the key tiles, then context C(i - 1)
                 over the column tiles: S0 S1 C0 S2 C1 ..., so that the softmax of one row tile
                 runs beside the scores of the next

    An operation that reads the banks (ATTEND, and LINEAR with its BANK flag) begins when the array
    is quiet, so everything before it is written. Operands in X8 wait in the issuer for their row
    tile. All addresses are sums kept in registers; nothing is multiplied.

    Members
    -------
    sequence : In, Sequence
    quiet
        No tile is waiting, running or being drained behind the sequencer.
    i
        Operations, in order; one waits while another is in hand.
    o
        Tiles, in order.
    score_multiplier, context_multiplier : Out, Multiplier
    context : Out, Region
    factor : Out, Factors
        Of the latest ATTEND and EMBED. They change only while the array is quiet.
    idle
        No operation is in hand.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "sequence": In(Sequence(config)),
                "quiet": In(1),
                "i": In(stream.Signature(OPERATION)),
                "o": Out(stream.Signature(Tile(config))),
                "score_multiplier": Out(Multiplier()),
                "context_multiplier": Out(Multiplier()),
                "factor": Out(Factors()),
                "context": Out(Region(config)),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n = self.config.lanes
        self._width = width = address_bits(self.config)

        op = Signal(OPERATION)
        # The loops do not hang on the issuer's decision, which comes late in the cycle.
        m.submodules.made = made = SkidBuffer(Tile(self.config))
        connect(m, made.o, flipped(self.o))
        tile, offer, advance = made.i.payload, made.i.valid, Signal()
        m.d.comb += advance.eq(offer & made.i.ready)

        # Loop registers shared by the operations: a position each of rows and columns.
        row = Signal(range(self.config.row_tiles + 1))
        rows = Signal(range(self.config.row_tiles + 1))  # row tiles to compute
        source = Signal(width)  # source's offset of the row tile
        row_offset = Signal(width)  # destination's offset of the row tile
        column_offset = Signal(width)  # destination's offset of the column tile
        tokens_left = Signal(range(self.config.tokens + 1))
        columns_left = Signal(16)
        weight_buffer = Signal()
        buffer_base = Signal(width)
        weight_words = self.config.weight_words
        m.d.comb += buffer_base.eq(Mux(weight_buffer, weight_words, 0))

        row_end, column_end = Signal(), Signal()
        m.d.comb += [row_end.eq(row + 1 == rows), column_end.eq(columns_left <= n)]

        linear = fields(Opcode.LINEAR, op.fields)
        attend = fields(Opcode.ATTEND, op.fields)
        embed = fields(Opcode.EMBED, op.fields)

        m.d.comb += [
            tile.norm_ordinal.eq(op.norm_ordinal),
            tile.row.eq(row),
            tile.operation.eq(op.number),
            tile.tag.weight_buffer.eq(weight_buffer),
        ]
        # One operation waits behind the one in hand, so that the loader is ahead by its weights.
        m.submodules.following = following = OneDeepQueue(OPERATION)
        connect(m, flipped(self.i), following.i)
        queued, waiting = following.o.payload, following.o.valid
        take = Signal()
        m.d.comb += following.o.ready.eq(take)

        with m.FSM(name="state") as fsm:
            m.d.comb += self.idle.eq(fsm.ongoing("IDLE") & ~self.i.valid & ~waiting)
            with m.State("IDLE"):
                fence = (queued.opcode == Opcode.ATTEND) | (
                    (queued.opcode == Opcode.LINEAR) & queued.flags.bank
                )
                still = self.quiet & ~self.o.valid
                m.d.comb += take.eq(waiting & self.sequence.ready & (still | ~fence))
                m.d.sync += op.eq(queued)
                with m.If(take):
                    m.next = "BEGIN"

            with m.State("BEGIN"):
                m.d.sync += [
                    row.eq(0),
                    rows.eq(Mux(op.flags.first_tile, 1, self.sequence.row_tiles)),
                    source.eq(0),
                    row_offset.eq(0),
                    column_offset.eq(0),
                    tokens_left.eq(self.sequence.tokens),
                ]
                with m.Switch(op.opcode):
                    with m.Case(Opcode.EMBED):
                        m.d.sync += [
                            columns_left.eq(embed.channels),
                            self.factor.token.eq(embed.token_factor),
                            self.factor.position.eq(embed.position_factor),
                        ]
                        m.next = "EMBED"
                    with m.Case(Opcode.LINEAR):
                        m.d.sync += columns_left.eq(linear.columns)
                        m.next = "LINEAR"
                    with m.Default():
                        m.d.sync += [
                            self.score_multiplier.m.eq(attend.score_m),
                            self.score_multiplier.s.eq(attend.score_s),
                            self.context_multiplier.m.eq(attend.context_m),
                            self.context_multiplier.s.eq(attend.context_s),
                            self.context.address.eq(attend.context),
                            self.context.stride.eq(attend.stride),
                        ]
                        m.next = "ATTEND"

            with m.State("EMBED"):
                token_tile = least(n, tokens_left)
                embedded = Signal(width)  # operand words of the column tiles before this one
                m.d.comb += [
                    offer.eq(1),
                    tile.a.eq(Operand.ONE_HOT),
                    tile.b.eq(Operand.WEIGHT),
                    tile.weights.eq(1),
                    tile.b_address.eq(buffer_base + embedded),
                    tile.length.eq(token_tile << 1),
                    tile.release.eq(column_end),
                    tile.tag.epilogue.eq(Epilogue.EMBEDDING),
                    tile.tag.address.eq(row_offset + column_offset),
                    tile.tag.columns.eq(least(n, columns_left)),
                    tile.tag.publish.eq(column_end),
                ]
                with m.If(advance):
                    with m.If(~column_end):
                        m.d.sync += [
                            columns_left.eq(columns_left - n),
                            column_offset.eq(column_offset + n),
                            embedded.eq(embedded + 2 * n),
                        ]
                    with m.Else():
                        m.d.sync += [
                            columns_left.eq(embed.channels),
                            column_offset.eq(0),
                            embedded.eq(0),
                            row.eq(row + 1),
                            row_offset.eq(row_offset + embed.channels),
                            tokens_left.eq(tokens_left - n),
                            weight_buffer.eq(~weight_buffer),
                        ]
                        with m.If(row_end):
                            m.next = "IDLE"

            with m.State("LINEAR"):
                activation = Mux(op.flags.bank, Operand.BANK, Operand.X8)
                address = linear.source + source
                m.d.comb += [
                    offer.eq(1),
                    tile.length.eq(linear.length),
                    tile.weights.eq(1),
                    tile.norm.eq(~op.flags.bank),
                    tile.release.eq(row_end),
                    tile.tag.release.eq(row_end),
                    tile.tag.table.eq(op.flags.table),
                    tile.tag.by_lane.eq(op.flags.by_lane),
                    tile.tag.shift.eq(linear.shift),
                    tile.tag.publish.eq(op.flags.residual & column_end),
                    tile.tag.table_last.eq(op.flags.table & column_end & row_end),
                    tile.tag.address.eq(linear.destination + row_offset + column_offset),
                ]
                with m.If(op.flags.by_lane):
                    m.d.comb += [
                        tile.a.eq(Operand.WEIGHT),
                        tile.a_address.eq(buffer_base),
                        tile.b.eq(activation),
                        tile.b_address.eq(address),
                        tile.tag.columns.eq(least(n, tokens_left)),
                    ]
                with m.Else():
                    m.d.comb += [
                        tile.a.eq(activation),
                        tile.a_address.eq(address),
                        tile.b.eq(Operand.WEIGHT),
                        tile.b_address.eq(buffer_base),
                        tile.tag.columns.eq(least(n, columns_left)),
                    ]
                with m.If(op.flags.logits):
                    m.d.comb += tile.tag.epilogue.eq(Epilogue.LOGITS)
                with m.Elif(op.flags.residual):
                    m.d.comb += tile.tag.epilogue.eq(Epilogue.RESIDUAL)
                with m.Else():
                    m.d.comb += tile.tag.epilogue.eq(Epilogue.INT8)
                with m.If(advance):
                    with m.If(~row_end):
                        m.d.sync += [
                            row.eq(row + 1),
                            source.eq(source + linear.source_stride),
                            row_offset.eq(
                                row_offset + Mux(op.flags.by_lane, n, linear.destination_stride)
                            ),
                            tokens_left.eq(tokens_left - n),
                        ]
                    with m.Else():
                        m.d.sync += [
                            row.eq(0),
                            source.eq(0),
                            row_offset.eq(0),
                            tokens_left.eq(self.sequence.tokens),
                            columns_left.eq(columns_left - n),
                            column_offset.eq(
                                column_offset
                                + Mux(op.flags.by_lane, padded(self.sequence.row_tiles, n), n)
                            ),
                            weight_buffer.eq(~weight_buffer),
                        ]
                        with m.If(column_end):
                            m.next = "IDLE"

            self._attend(m, op, attend, tile, offer, advance, rows)
        return m

    def _attend(
        self,
        m: Module,
        op: data.View,
        attend: data.View,
        tile: data.View,
        offer: Signal,
        advance: Signal,
        rows: Signal,
    ) -> None:
        """States ATTEND (set-up), SCORES and CONTEXT."""
        n, width = self.config.lanes, self._width
        # Where the next S and the next C stand: row tile, offsets of row tile and head, and which
        # half of the softmax's double buffers they use.
        place = data.StructLayout(
            {
                "row": unsigned(self.config.row_tiles.bit_length()),
                "row_offset": unsigned(width),
                "head": unsigned(8),
                "head_offset": unsigned(width),
                "half": unsigned(1),
            }
        )
        scores, context = Signal(place), Signal(place)
        ahead = Signal(2)  # S made whose C is not
        scores_left = Signal()
        key = Signal(range(self.config.tokens + n))
        key_offset = Signal(width)
        keys_left = Signal(range(self.config.tokens + 1))
        value_offset = Signal(width)
        head_value = Signal(width)  # the head's first column tile of V
        channel = Signal(width)  # first channel of the column tile within the head
        channels_left = Signal(16)

        def step(at: data.View) -> None:
            """To the next row tile, or to the next head's first."""
            m.d.sync += at.half.eq(~at.half)
            with m.If(at.row + 1 == rows):
                m.d.sync += [
                    at.row.eq(0),
                    at.row_offset.eq(0),
                    at.head.eq(at.head + 1),
                    at.head_offset.eq(at.head_offset + attend.head_size),
                ]
            with m.Else():
                m.d.sync += [
                    at.row.eq(at.row + 1),
                    at.row_offset.eq(at.row_offset + attend.stride),
                ]

        with m.State("ATTEND"):
            m.d.sync += [
                scores.eq(0),
                context.eq(0),
                ahead.eq(0),
                scores_left.eq(1),
                key.eq(0),
                key_offset.eq(0),
                keys_left.eq(self.sequence.tokens),
                value_offset.eq(0),
                head_value.eq(0),
                channel.eq(0),
                channels_left.eq(attend.head_size),
            ]
            m.next = "SCORES"

        with m.State("SCORES"):
            key_end = keys_left <= n
            m.d.comb += [
                offer.eq(1),
                tile.a.eq(Operand.BANK),
                tile.a_address.eq(attend.query + scores.row_offset + scores.head_offset),
                tile.b.eq(Operand.BANK),
                tile.b_address.eq(attend.key + key_offset + scores.head_offset),
                tile.length.eq(attend.head_size),
                tile.row.eq(scores.row),
                tile.tag.epilogue.eq(Epilogue.SCORE),
                tile.tag.address.eq(key),
                tile.tag.columns.eq(least(n, keys_left)),
                tile.tag.score_first.eq(key == 0),
                tile.tag.score_last.eq(key_end),
                tile.tag.softmax_buffer.eq(scores.half),
            ]
            with m.If(advance):
                with m.If(~key_end):
                    m.d.sync += [
                        key.eq(key + n),
                        key_offset.eq(key_offset + attend.stride),
                        keys_left.eq(keys_left - n),
                    ]
                with m.Else():
                    last = (scores.row + 1 == rows) & (scores.head + 1 == attend.heads)
                    step(scores)
                    m.d.sync += [
                        key.eq(0),
                        key_offset.eq(0),
                        keys_left.eq(self.sequence.tokens),
                        ahead.eq(ahead + 1),
                        scores_left.eq(~last),
                    ]
                    with m.If((ahead == 1) | last):
                        m.next = "CONTEXT"

        with m.State("CONTEXT"):
            value_end = channels_left <= n
            # V of the head's column tiles lies one after the other, a word a token.
            next_value = value_offset + padded(self.sequence.row_tiles, n)
            m.d.comb += [
                offer.eq(1),
                tile.a.eq(Operand.P),
                tile.b.eq(Operand.BANK),
                tile.b_address.eq(attend.value + value_offset),
                tile.length.eq(self.sequence.tokens),
                tile.row.eq(context.row),
                tile.softmax.eq(channel == 0),
                tile.tag.epilogue.eq(Epilogue.CONTEXT),
                tile.tag.address.eq(
                    attend.context + (context.row_offset + context.head_offset) + channel
                ),
                tile.tag.columns.eq(least(n, channels_left)),
                tile.tag.softmax_buffer.eq(context.half),
            ]
            with m.If(advance):
                with m.If(~value_end):
                    m.d.sync += [
                        value_offset.eq(next_value),
                        channel.eq(channel + n),
                        channels_left.eq(channels_left - n),
                    ]
                with m.Else():
                    step(context)
                    m.d.sync += [
                        channel.eq(0),
                        channels_left.eq(attend.head_size),
                        ahead.eq(ahead - 1),
                    ]
                    with m.If(context.row + 1 == rows):
                        m.d.sync += [value_offset.eq(next_value), head_value.eq(next_value)]
                    with m.Else():
                        m.d.sync += value_offset.eq(head_value)
                    with m.If(scores_left):
                        m.next = "SCORES"
                    with m.Elif(ahead == 1):
                        m.next = "IDLE"


def least(n: int, left: Value) -> Value:
    """min(n, left), for a power of two n, in as few bits as that takes."""
    return Mux(left >= n, n, left[: n.bit_length()])


def padded(row_tiles: Value, n: int) -> Value:
    """row_tiles * n for a power of two n: the words of one column tile of V."""
    return row_tiles << n.bit_length() - 1

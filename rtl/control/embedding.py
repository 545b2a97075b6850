"""The embedding unit: asks for the rows of tokens and positions, and fills the weight buffers."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import data
from amaranth.lib.stream import Signature as Stream
from amaranth.lib.wiring import connect, flipped

from rtl.interface.config import Config, ceil_div
from rtl.interface.operation import Error
from rtl.interface.ports.batch import Batch, LengthWrite, TokenWrite
from rtl.interface.ports.loading import RowsFill
from rtl.interface.word import int8_word, row_word
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.memory import DistributedMemory, Memory, WritePort

MAX_PENDING = 256
"""Words asked for and not yet received; enough to hide 20 cycles and more a row."""

ENTRY = data.StructLayout({"id": unsigned(24), "type": unsigned(1), "ends": unsigned(1)})


class Embedding(Unit):
    """Two rows a token, from one flat table outside: token[id], then position[type][t + offset].

    Row numbers: the tokens, then the positions of type 0, then those of type 1. Rows are asked for
    ahead, and must come in the order of the requests, each as ceil(channels / N) words. With c ways
    word w of row k (0: token, 1: position) of lane i goes to address (w div c) * 2N + 2i + k of a
    weight half, in way w mod c, so that column tile t finds its operands at 2N consecutive
    addresses from t * 2N on. Wide rows have twice the words, high and low bytes in turn: word
    2w + h goes to address (w div c) * 4N + 4i + 2k + h. A token takes four cycles to ask for; a
    word is taken a cycle.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        n = config.lanes
        super().__init__(
            token=In(TokenWrite(config)),
            length=In(LengthWrite(config)),
            batch=In(Batch(config)),
            rows=In(RowsFill(), "The EMBED in hand."),
            request=Out(Stream(unsigned(32), payload_init=0), "Row numbers."),
            i=In(Stream(row_word(n)), "The rows' words, `last` with each row's last."),
            write=Out(
                WritePort(range(config.weight_words), int8_word(n), config.ways),
                "Of the weight half.",
            ),
            error=Out(
                Error, "TOKEN: an id or a type beyond the tables. ROW: a row ended early or late."
            ),
            number=Out(range(config.row_tiles), "The sequence that has the error, valid with it."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n = self.config.lanes
        rows: data.View = self.rows.fields
        m.submodules.ids = ids = Memory(ENTRY, self.config.places)
        m.d.comb += [
            ids.write.en.eq(self.token.en),
            ids.write.address.eq(self.token.address),
            ids.write.data.id.eq(self.token.token.id),
            ids.write.data.type.eq(self.token.token.type),
            ids.write.data.ends.eq(self.token.token.ends),
        ]
        m.submodules.lengths = lengths = DistributedMemory(
            range(self.config.tokens + 1), self.config.row_tiles
        )
        connect(m, flipped(self.length), lengths.write)
        # Known before the unit is active: a descriptor is checked for two cycles.
        words = Signal(range(2 * ceil_div(self.config.hidden, n) + 1))  # of a row
        wide = rows.wide[0]
        m.d.sync += words.eq((rows.channels + n - 1) >> n.bit_length() - 1 << wide)
        pending = Signal(16)  # words asked for and not received
        self._request(m, ids, pending)
        self._fill(m, lengths, words, pending)
        return m

    def _request(self, m: Module, ids: Memory, pending: Signal) -> None:
        """Ask for the rows of each token: its own, then its position's."""
        n, rows = self.config.lanes, self.rows.fields
        bits = n.bit_length() - 1
        asked = Signal(range(self.config.places + n))  # place of the token that is asked for
        asking = Signal(range(self.config.row_tiles))  # its sequence
        position = Signal(32)  # row of this token's position, of type 0
        first_position = Signal(32)
        wait = Signal(range(Memory.latency + 1))
        entry = ids.read.data
        token_type, ends = Signal(), Signal()  # of the token whose position is asked for
        # The next id is read while a position is asked for, so that it is compared in time.
        next_asked, unknown = Signal.like(asked), Signal()
        m.d.comb += [
            next_asked.eq(Mux(ends, Cat(Const(0, bits), asked[bits:] + 1), asked + 1)),
            ids.read.address.eq(asked),
            first_position.eq(rows.token_rows + rows.offset),
        ]
        m.d.sync += unknown.eq((entry.id >= rows.token_rows) | (entry.type & (rows.types < 2)))
        m.d.sync += wait.eq(Mux(wait == 0, 0, wait - 1))
        # A row may be asked for while fewer words than these are pending: one row more than they.
        room = pending < MAX_PENDING
        with m.FSM(name="request"):
            with m.State("IDLE"):
                m.d.comb += ids.read.address.eq(0)
                m.d.sync += [
                    asked.eq(0),
                    asking.eq(0),
                    position.eq(first_position),
                    wait.eq(Memory.latency),
                ]
                with m.If(self.rows.active & self.batch.ready):
                    m.next = "TOKEN"
            with m.State("TOKEN"):
                m.d.comb += self.request.payload.eq(entry.id)
                m.d.sync += [token_type.eq(entry.type), ends.eq(entry.ends)]
                with m.If(wait == 0):
                    with m.If(unknown):
                        m.d.sync += [self.error.eq(Error.TOKEN), self.number.eq(asking)]
                        m.next = "ASKED"
                    with m.Else():
                        m.d.comb += self.request.valid.eq(room)
                        with m.If(room & self.request.ready):
                            m.next = "POSITION"
            with m.State("POSITION"):
                m.d.comb += [
                    ids.read.address.eq(next_asked),
                    self.request.payload.eq(position + Mux(token_type, rows.position_rows, 0)),
                    self.request.valid.eq(room),
                ]
                with m.If(room & self.request.ready):
                    m.d.sync += [
                        asked.eq(next_asked),
                        asking.eq(asking + ends),
                        position.eq(Mux(ends, first_position, position + 1)),
                        wait.eq(Memory.latency),
                    ]
                    m.next = "TOKEN"
                    with m.If(ends & (next_asked[bits:] == self.batch.row_tiles)):
                        m.next = "ASKED"
            with m.State("ASKED"):
                with m.If(~self.rows.active):
                    m.next = "IDLE"

    def _fill(self, m: Module, lengths: DistributedMemory, words: Signal, pending: Signal) -> None:
        """Put the words of the rows that come into the weight half."""
        n, wide = self.config.lanes, self.rows.fields.wide[0]
        # Rows come in: word within the row, kind of row, lane, token. What ends with a word is
        # known when it comes; a token takes two rows, so what it ends may be known a cycle late.
        word, row_ends = Signal.like(words), Signal()
        kind = Signal()
        lane = Signal(range(n))
        token = Signal(range(self.config.tokens + 1))  # of its sequence
        coming = Signal(range(self.config.row_tiles))  # that sequence
        sequence_ends, batch_ends = Signal(), Signal()
        m.d.sync += [
            sequence_ends.eq(token + 1 == lengths.read.data),
            batch_ends.eq(coming + 1 == self.batch.sequences),
        ]
        taken = self.i.valid & self.i.ready
        way_bits = self.config.way_bits
        way = Mux(wide, word[1:], word)[:way_bits]
        row_end = taken & row_ends
        asks = self.request.valid & self.request.ready
        m.d.sync += pending.eq(pending + Mux(asks, words, 0) - taken)
        m.d.comb += [
            self.i.ready.eq(self.rows.fill),
            self.write.en.eq(Mux(taken, 1 << way, 0)),
            self.write.address.eq(
                Mux(
                    wide,
                    Cat(word[0], kind, lane, word[1 + way_bits :]),
                    Cat(kind, lane, word[way_bits:]),
                )
            ),
            self.write.data.eq(self.i.payload.data),
            lengths.read.address.eq(coming),
            self.rows.last.eq(sequence_ends & batch_ends),
            self.rows.done.eq(row_end & kind & (sequence_ends | (lane == n - 1))),
        ]
        with m.If(taken):
            m.d.sync += [word.eq(word + 1), row_ends.eq(word + 2 == words)]
            with m.If(self.i.payload.last != row_end):
                m.d.sync += [self.error.eq(Error.ROW), self.number.eq(coming)]
        with m.If(row_end | ~self.rows.active):
            m.d.sync += [word.eq(0), row_ends.eq(words == 1)]
        with m.If(row_end):
            m.d.sync += kind.eq(~kind)
            with m.If(kind):
                m.d.sync += [lane.eq(lane + 1), token.eq(token + 1)]
                with m.If(sequence_ends):
                    m.d.sync += [lane.eq(0), token.eq(0), coming.eq(coming + 1)]
        with m.If(self.rows.done & self.rows.last):
            m.d.sync += coming.eq(0)

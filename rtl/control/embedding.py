"""The embedding unit: asks for the rows of tokens and positions, and fills the weight buffers."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.interface.config import Config, ceil_div
from rtl.interface.operation import Error
from rtl.interface.ports import RowsFill, Sequence, TokenWrite, int8_word, row_word
from rtl.primitives.memory import Memory, WritePort

MAX_PENDING = 256
"""Words asked for and not yet received; enough to hide 20 cycles and more a row."""

ENTRY = data.StructLayout({"id": unsigned(24), "type": unsigned(1)})


class Embedding(wiring.Component):
    """Two rows a token, from one flat table outside: token[id], then position[type][t + offset].

    Row numbers: the tokens, then the positions of type 0, then those of type 1. Rows are asked for
    ahead, and must come in the order of the requests, each as ceil(channels / N) words. Word w of
    row k (0: token, 1: position) of lane i goes to address w * 2N + 2i + k of a weight half, so
    that column tile w finds its operands at 2N consecutive addresses. Wide rows have twice the
    words, high and low bytes in turn: word 2w + h goes to address w * 4N + 4i + 2k + h. A token
    takes four cycles to ask for; a word is taken a cycle.

    Members
    -------
    token : In, TokenWrite
    sequence : In, Sequence
    rows : In, RowsFill
        The EMBED in hand.
    request
        Row numbers.
    i
        The rows' words, `last` with each row's last.
    write : Out, WritePort
        Of the weight half.
    error
        TOKEN: an id is beyond the table, or a type beyond the types.
        ROW: a row ended early or late.

    Parameters
    ----------
    config
        Lanes, longest sequence and widest hidden state.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        n = config.lanes
        super().__init__(
            {
                "token": In(TokenWrite(config)),
                "sequence": In(Sequence(config)),
                "rows": In(RowsFill()),
                "request": Out(stream.Signature(unsigned(32), payload_init=0)),
                "i": In(stream.Signature(row_word(n))),
                "write": Out(WritePort(range(config.weight_words), int8_word(n))),
                "error": Out(Error),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n = self.config.lanes
        rows: data.View = self.rows.fields
        m.submodules.ids = ids = Memory(ENTRY, self.config.tokens)
        m.d.comb += [
            ids.write.en.eq(self.token.en),
            ids.write.address.eq(self.token.address),
            ids.write.data.id.eq(self.token.token.id),
            ids.write.data.type.eq(self.token.token.type),
        ]
        # Known before the unit is active: a descriptor is checked for two cycles.
        words = Signal(range(2 * ceil_div(self.config.hidden, n) + 1))  # of a row
        wide = rows.wide[0]
        m.d.sync += words.eq((rows.channels + n - 1) >> n.bit_length() - 1 << wide)
        pending = Signal(16)  # words asked for and not received

        asked = Signal(range(self.config.tokens + 1))
        position = Signal(32)  # row of this token's position, of type 0
        wait = Signal(range(Memory.latency + 1))
        entry = ids.read.data
        token_type = Signal()  # of the token whose position is asked for
        # The next id is read while a position is asked for, so that it is compared in time.
        next_asked, unknown = Signal.like(asked), Signal()
        m.d.comb += [next_asked.eq(asked + 1), ids.read.address.eq(asked)]
        m.d.sync += unknown.eq((entry.id >= rows.token_rows) | (entry.type & (rows.types < 2)))
        m.d.sync += wait.eq(Mux(wait == 0, 0, wait - 1))
        # A row may be asked for while there is room for the longest one.
        room = pending < MAX_PENDING
        with m.FSM(name="request"):
            with m.State("IDLE"):
                m.d.comb += ids.read.address.eq(0)
                m.d.sync += [
                    asked.eq(0),
                    position.eq(rows.token_rows + rows.offset),
                    wait.eq(Memory.latency),
                ]
                with m.If(self.rows.active & self.sequence.ready):
                    m.next = "TOKEN"
            with m.State("TOKEN"):
                m.d.comb += self.request.payload.eq(entry.id)
                m.d.sync += token_type.eq(entry.type)
                with m.If(wait == 0):
                    with m.If(unknown):
                        m.d.sync += self.error.eq(Error.TOKEN)
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
                        position.eq(position + 1),
                        wait.eq(Memory.latency),
                    ]
                    m.next = "TOKEN"
                    with m.If(next_asked == self.sequence.tokens):
                        m.next = "ASKED"
            with m.State("ASKED"):
                with m.If(~self.rows.active):
                    m.next = "IDLE"

        # Rows come in: word within the row, kind of row, lane, token.
        word = Signal.like(words)
        kind = Signal()
        lane = Signal(range(n))
        token = Signal(range(self.config.tokens + 1))
        taken = self.i.valid & self.i.ready
        row_end = taken & (word + 1 == words)
        asks = self.request.valid & self.request.ready
        m.d.sync += pending.eq(pending + Mux(asks, words, 0) - taken)
        m.d.comb += [
            self.i.ready.eq(self.rows.fill),
            self.write.en.eq(taken),
            self.write.address.eq(
                Mux(wide, Cat(word[0], kind, lane, word[1:]), Cat(kind, lane, word))
            ),
            self.write.data.eq(self.i.payload.data),
            self.rows.last.eq(token + 1 == self.sequence.tokens),
            self.rows.done.eq(row_end & kind & (self.rows.last | (lane == n - 1))),
        ]
        with m.If(taken):
            m.d.sync += word.eq(word + 1)
            with m.If(self.i.payload.last != row_end):
                m.d.sync += self.error.eq(Error.ROW)
        with m.If(row_end):
            m.d.sync += [word.eq(0), kind.eq(~kind)]
            with m.If(kind):
                m.d.sync += [lane.eq(lane + 1), token.eq(token + 1)]
        with m.If(self.rows.done & self.rows.last):
            m.d.sync += [lane.eq(0), token.eq(0)]
        return m

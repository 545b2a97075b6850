"""The embedding unit: asks for the rows of tokens and positions, and fills the weight buffers."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.control.tokens import TOKEN
from rtl.interface.config import Config, ceil_div
from rtl.interface.operation import EMBED, Error
from rtl.primitives.memory import Memory

MOST_PENDING = 256
"""Words asked for and not yet received; enough to hide 20 cycles and more a row."""

ENTRY = data.StructLayout({"id": unsigned(24), "type": unsigned(1)})


class Embedding(wiring.Component):
    """Two rows a token, from one flat table outside: token[id], then position[type][t + offset].

    Row numbers: the tokens, then the positions of type 0, then those of type 1. Rows are asked for
    ahead, and must come in the order of the requests, each as ceil(channels / N) words. Word w of
    row k (0: token, 1: position) of lane i goes to address w * 2N + 2i + k of a weight half, so
    that column tile w finds its operands at 2N consecutive addresses. A token takes four cycles to
    ask for; a word is taken a cycle.

    Members
    -------
    en, address, token
        Tokens as they are read.
    ready, tokens
        The sequence is complete; its length.
    rows, active, fill, done, last
        See `Loader`: the EMBED in hand, the half may be filled, it is full, it was the last.
    request
        Row numbers.
    i
        The rows' words.
    pending
        Words asked for and not received; it survives a reset, in which `i` is taken and dropped.
    words
        Words of a row.
    write_en, write_address, write_data
        Write port of the weight half.
    error
        TOKEN: an id is beyond the table, or a type beyond the types.

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
                "en": In(1),
                "address": In(range(config.tokens)),
                "token": In(TOKEN),
                "ready": In(1),
                "tokens": In(range(config.tokens + 1)),
                "rows": In(EMBED),
                "active": In(1),
                "fill": In(1),
                "done": Out(1),
                "last": Out(1),
                "request": Out(stream.Signature(unsigned(32), payload_init=0)),
                "i": In(stream.Signature(data.ArrayLayout(signed(8), n))),
                "pending": In(16),
                "words": Out(range(ceil_div(config.hidden, n) + 1)),
                "write_en": Out(1),
                "write_address": Out(range(config.weight_words)),
                "write_data": Out(data.ArrayLayout(signed(8), n)),
                "error": Out(Error),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n = self.config.lanes
        rows: data.View = self.rows
        m.submodules.ids = ids = Memory(ENTRY, self.config.tokens)
        m.d.comb += [
            ids.write_en.eq(self.en),
            ids.write_address.eq(self.address),
            ids.write_data.id.eq(self.token.id),
            ids.write_data.type.eq(self.token.type),
        ]
        # Known before the unit is active: a descriptor is checked for two cycles.
        m.d.sync += self.words.eq((rows.channels + n - 1) >> n.bit_length() - 1)

        asked = Signal(range(self.config.tokens + 1))
        position = Signal(32)  # row of this token's position, of type 0
        wait = Signal(range(Memory.latency + 1))
        entry = ids.read_data
        m.d.comb += ids.read_address.eq(asked)
        m.d.sync += wait.eq(Mux(wait == 0, 0, wait - 1))
        # A row may be asked for while there is room for the longest one.
        room = self.pending < MOST_PENDING
        with m.FSM(name="request"):
            with m.State("IDLE"):
                m.d.sync += [
                    asked.eq(0),
                    position.eq(rows.token_rows + rows.offset),
                    wait.eq(Memory.latency),
                ]
                with m.If(self.active & self.ready):
                    m.next = "TOKEN"
            with m.State("TOKEN"):
                m.d.comb += self.request.payload.eq(entry.id)
                with m.If(wait == 0):
                    with m.If((entry.id >= rows.token_rows) | (entry.type & (rows.types < 2))):
                        m.d.sync += self.error.eq(Error.TOKEN)
                        m.next = "ASKED"
                    with m.Else():
                        m.d.comb += self.request.valid.eq(room)
                        with m.If(room & self.request.ready):
                            m.next = "POSITION"
            with m.State("POSITION"):
                m.d.comb += [
                    self.request.payload.eq(position + Mux(entry.type, rows.position_rows, 0)),
                    self.request.valid.eq(room),
                ]
                with m.If(room & self.request.ready):
                    m.d.sync += [
                        asked.eq(asked + 1),
                        position.eq(position + 1),
                        wait.eq(Memory.latency),
                    ]
                    m.next = "TOKEN"
                    with m.If(asked + 1 == self.tokens):
                        m.next = "ASKED"
            with m.State("ASKED"):
                with m.If(~self.active):
                    m.next = "IDLE"

        # Rows come in: word within the row, kind of row, lane, token.
        word = Signal.like(self.words)
        kind = Signal()
        lane = Signal(range(n))
        token = Signal(range(self.config.tokens + 1))
        taken = self.i.valid & self.i.ready
        row_end = taken & (word + 1 == self.words)
        m.d.comb += [
            self.i.ready.eq(self.fill),
            self.write_en.eq(taken),
            self.write_address.eq(Cat(kind, lane, word)),
            self.write_data.eq(self.i.payload),
            self.last.eq(token + 1 == self.tokens),
            self.done.eq(row_end & kind & (self.last | (lane == n - 1))),
        ]
        with m.If(taken):
            m.d.sync += word.eq(word + 1)
        with m.If(row_end):
            m.d.sync += [word.eq(0), kind.eq(~kind)]
            with m.If(kind):
                m.d.sync += [lane.eq(lane + 1), token.eq(token + 1)]
        with m.If(self.done & self.last):
            m.d.sync += [lane.eq(0), token.eq(0)]
        return m

"""The token reader: takes the words of a batch, keeps what the inference needs of them."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, Signal
from amaranth.lib.stream import Signature as Stream

from rtl.interface.config import Config
from rtl.interface.operation import Error
from rtl.interface.ports.batch import Batch, LengthWrite, TokenWrite
from rtl.interface.word import TOKEN_WORD
from rtl.primitives.members import In, Out, Unit


class Tokens(Unit):
    """Reads the sequences of a batch up to `last`, a word a cycle, and counts them.

    A sequence ends with the word that has `ends` set, or `last`; the next one begins a row tile.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            i=In(Stream(TOKEN_WORD), "Not ready until reset ends, nor after `last`."),
            o=Out(TokenWrite(config), "A token as it is taken, for the mask and the id memory."),
            length=Out(LengthWrite(config), "Of each sequence, with its last token."),
            batch=Out(Batch(config), "Ready once `last` was taken, if every sequence is good."),
            longest=Out(
                range(config.tokens + 1),
                "Of the longest sequence, the first of several; valid with ready.",
            ),
            longest_number=Out(range(config.row_tiles), ...),
            error=Out(
                Error,
                "LENGTH: a sequence has more tokens than the configuration takes, or all together "
                "need more row tiles (the rest is taken and dropped). NO_KEY: a sequence has no "
                "token with its attend bit set.",
            ),
            number=Out(range(config.row_tiles + 1), "The sequence that is read, or has the error."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n = self.config.lanes
        lane = Signal(range(n))
        tokens = Signal(range(self.config.tokens + 1))  # of the sequence, before this one
        following = Signal.like(tokens)
        ended, attended = Signal(), Signal()
        word = self.i.payload
        ends = word.last | word.data.ends
        full = (tokens == self.config.tokens) | (self.batch.row_tiles == self.config.row_tiles)
        taken = self.i.valid & self.i.ready & (self.error == Error.NONE)
        m.d.comb += [
            following.eq(tokens + 1),
            self.i.ready.eq(~ended),
            self.o.en.eq(taken & ~full),
            self.o.address.eq(Cat(lane, self.batch.row_tiles)),
            self.o.token.eq(word.data),
            self.o.token.ends.eq(ends),
            self.length.en.eq(taken & ~full & ends),
            self.length.address.eq(self.batch.sequences),
            self.length.data.eq(following),
            self.batch.ready.eq(ended & (self.error == Error.NONE)),
        ]
        with m.If(self.i.valid & self.i.ready & word.last):
            m.d.sync += ended.eq(1)
        with m.If(taken & full):
            m.d.sync += [self.error.eq(Error.LENGTH), self.number.eq(self.batch.sequences)]
        with m.Elif(taken):
            m.d.sync += [
                tokens.eq(Mux(ends, 0, following)),
                lane.eq(Mux(ends, 0, lane + 1)),
                self.batch.row_tiles.eq(self.batch.row_tiles + (ends | (lane == n - 1))),
                attended.eq(~ends & (attended | word.data.attend)),
            ]
            with m.If(ends):
                m.d.sync += self.batch.sequences.eq(self.batch.sequences + 1)
                with m.If(self.batch.sequences[: n.bit_length() - 1] == 0):
                    m.d.sync += self.batch.gathered.eq(self.batch.gathered + 1)
                with m.If(tokens >= self.longest):
                    m.d.sync += [
                        self.longest.eq(following),
                        self.longest_number.eq(self.batch.sequences),
                    ]
                with m.If(~attended & ~word.data.attend):
                    m.d.sync += [
                        self.error.eq(Error.NO_KEY),
                        self.number.eq(self.batch.sequences),
                    ]
        return m

"""The token reader: takes a sequence's words, keeps what the inference needs of them."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.interface.config import Config
from rtl.interface.operation import Error
from rtl.interface.ports import TOKEN_WORD, Sequence, TokenWrite


class Tokens(wiring.Component):
    """Reads one sequence up to `last`, a word a cycle, and counts it.

    Members
    -------
    i
        Token words. Not ready until reset ends, and no more after `last`.
    o : Out, TokenWrite
        A token as it is taken, for the mask and the id memory.
    sequence : Out, Sequence
        Ready once `last` was taken, if the sequence is good; its members count the tokens before.
    error
        LENGTH: more tokens than the configuration takes (the rest is taken and dropped).
        NO_KEY: no token has its attend bit set.

    Parameters
    ----------
    config
        Lanes and longest sequence.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(TOKEN_WORD)),
                "o": Out(TokenWrite(config)),
                "sequence": Out(Sequence(config)),
                "error": Out(Error),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        lane = Signal(range(self.config.lanes))
        ended, attended = Signal(), Signal()
        word = self.i.payload
        full = self.sequence.tokens == self.config.tokens
        taken = self.i.valid & self.i.ready
        m.d.comb += [
            self.i.ready.eq(~ended),
            self.o.en.eq(taken & ~full),
            self.o.address.eq(self.sequence.tokens),
            self.o.token.eq(word.data),
            self.sequence.ready.eq(ended & (self.error == Error.NONE)),
        ]
        with m.If(taken):
            with m.If(full):
                m.d.sync += self.error.eq(Error.LENGTH)
            with m.Else():
                m.d.sync += [
                    self.sequence.tokens.eq(self.sequence.tokens + 1),
                    lane.eq(lane + 1),
                    self.sequence.row_tiles.eq(self.sequence.row_tiles + Mux(lane == 0, 1, 0)),
                    attended.eq(attended | word.data.attend),
                ]
            with m.If(word.last):
                m.d.sync += ended.eq(1)
                with m.If(~full & ~attended & ~word.data.attend):
                    m.d.sync += self.error.eq(Error.NO_KEY)
        return m

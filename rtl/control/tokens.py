"""The token reader: takes a sequence's words, keeps what the inference needs of them."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.interface.config import Config
from rtl.interface.operation import Error

TOKEN = data.StructLayout(
    {"id": unsigned(24), "type": unsigned(1), "attend": unsigned(1), "unused": unsigned(6)}
)
"""A word of the tokens stream: id[23:0], type[24], attend[25]."""

TOKEN_WORD = data.StructLayout({"data": TOKEN, "last": unsigned(1)})


class Tokens(wiring.Component):
    """Reads one sequence up to `last`, a word a cycle, and counts it.

    Members
    -------
    i
        Token words. Not ready until reset ends, and no more after `last`.
    en, address, token
        A token as it is taken, for the mask and the id memory.
    tokens, row_tiles, valid
        Length and row tiles, `valid` once `last` was taken and the sequence is good.
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
                "en": Out(1),
                "address": Out(range(config.tokens)),
                "token": Out(TOKEN),
                "tokens": Out(range(config.tokens + 1)),
                "row_tiles": Out(range(config.row_tiles + 1)),
                "valid": Out(1),
                "error": Out(Error),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        lane = Signal(range(self.config.lanes))
        ended, attended = Signal(), Signal()
        word = self.i.payload
        full = self.tokens == self.config.tokens
        taken = self.i.valid & self.i.ready
        m.d.comb += [
            self.i.ready.eq(~ended),
            self.en.eq(taken & ~full),
            self.address.eq(self.tokens),
            self.token.eq(word.data),
            self.valid.eq(ended & (self.error == Error.NONE)),
        ]
        with m.If(taken):
            with m.If(full):
                m.d.sync += self.error.eq(Error.LENGTH)
            with m.Else():
                m.d.sync += [
                    self.tokens.eq(self.tokens + 1),
                    lane.eq(lane + 1),
                    self.row_tiles.eq(self.row_tiles + Mux(lane == 0, 1, 0)),
                    attended.eq(attended | word.data.attend),
                ]
            with m.If(word.last):
                m.d.sync += ended.eq(1)
                with m.If(~full & ~attended & ~word.data.attend):
                    m.d.sync += self.error.eq(Error.NO_KEY)
        return m

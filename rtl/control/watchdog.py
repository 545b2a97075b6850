"""The watchdog: ends an inference in which nothing moves although nothing outside is awaited."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Signal

from rtl.interface.config import Config
from rtl.interface.operation import Error
from rtl.primitives.members import In, Out, Unit


def patience(config: Config) -> int:
    """Cycles without progress that count as a hang; a power of two.

    The longest silence of a good inference is that of a LayerNorm between two row tiles or of a
    softmax before its first p: below 2 hidden + 3 N + 100 and tokens + 100.
    """
    longest = max(config.tokens, config.hidden, config.ffn, 64)
    return 1 << (longest - 1).bit_length() + 4


class Watchdog(Unit):
    """Counts cycles without progress. It begins anew with a reset."""

    def __init__(self, config: Config) -> None:
        self.patience = patience(config)
        super().__init__(
            waits=In(1, "A source outside is silent, or a sink does not take: that is no hang."),
            moved=In(1, "Something got on: a word passed, an operand was read, a result written."),
            error=Out(Error, "TIMEOUT after `patience` cycles without waits or moved."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        lives = Signal()
        silent = Signal(range(self.patience + 1))
        m.d.sync += lives.eq(self.waits | self.moved)
        with m.If(silent == self.patience - 3):
            m.d.sync += self.error.eq(Error.TIMEOUT)
        with m.Elif(lives):
            m.d.sync += silent.eq(0)
        with m.Else():
            m.d.sync += silent.eq(silent + 1)
        return m

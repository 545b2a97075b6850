"""Attention: the activations of one layer in, the context of all its heads out."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, ResetInserter, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.control.control import Control
from rtl.control.tokens import Tokens
from rtl.engine import Engine
from rtl.interface.config import Config
from rtl.interface.operation import Error
from rtl.interface.trace import AttentionTrace
from rtl.interface.word import TOKEN_WORD, activation_word, int8_word, stream_word
from rtl.primitives.memory import Memory


class Attention(wiring.Component):
    """The engine without embedding, LayerNorm and residual: the attention datapath alone.

    The command stream holds LINEAR operations for Q, K and V and one ATTEND; `docs/numerics.md`
    sections 3 and 6. `i` and `o` carry words of N tokens of one channel, row tile after row tile,
    channel after channel; the last row tile is padded with any values.

    Latency: of the tokens and of `i`, then as the cycle model says, then 4 cycles a word of `o`.

    Members
    -------
    start, abort, busy, done, error
        See `Control`.
    tokens
        Length and attend bits (`rtl.interface.word.TOKEN`; ids and types are ignored).
    i
        row_tiles * channels words of int8, with `config.precise` of `HALVES`; `last` with the last
        one. With more columns than lanes they are taken from the HEADER on, whose hidden are the
        channels.
    model
        Command stream.
    o
        row_tiles * stride words of int8 context.
    cycles, active_cycles
        Since start: clock cycles, and those in which an operand entered the array.
    trace : Out, AttentionTrace
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.engine = Engine(config, encoder=False)
        n = config.lanes
        operands = data.StructLayout(
            {"data": activation_word(n, config.precise), "last": unsigned(1)}
        )
        word = data.StructLayout({"data": int8_word(n), "last": unsigned(1)})
        super().__init__(
            {
                "start": In(1),
                "abort": In(1),
                "busy": Out(1),
                "done": Out(1),
                "error": Out(Error),
                "tokens": In(stream.Signature(TOKEN_WORD)),
                "i": In(stream.Signature(operands)),
                "model": In(stream.Signature(stream_word(config.stream_width))),
                "o": Out(stream.Signature(word)),
                "cycles": Out(32),
                "active_cycles": Out(32),
                "trace": Out(AttentionTrace(config)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        config = self.config
        m.submodules.control = control = Control()
        engine, tokens = self.engine, Tokens(config)
        m.submodules.engine = ResetInserter(control.reset)(engine)
        m.submodules.tokens = ResetInserter(control.reset)(tokens)
        connect(m, flipped(self.trace), engine.trace)

        loaded = self._input(m, control)
        read = self._output(m, control, tokens)
        batch = tokens.batch
        too_long = engine.limit.valid & batch.ready & (tokens.longest > engine.limit.tokens)
        failed = Signal(Error)
        with m.If(engine.error != Error.NONE):
            m.d.comb += failed.eq(engine.error)
        with m.Elif(tokens.error != Error.NONE):
            m.d.comb += failed.eq(tokens.error)
        with m.Elif(too_long):
            m.d.comb += failed.eq(Error.LENGTH)
        m.d.comb += [
            control.start.eq(self.start),
            control.abort.eq(self.abort),
            control.error.eq(failed),
            control.model_ended.eq(self.model.valid & self.model.ready & self.model.payload.last),
            control.tokens_ended.eq(
                self.tokens.valid & self.tokens.ready & self.tokens.payload.last
            ),
            self.busy.eq(control.busy),
            self.done.eq(control.done),
            self.error.eq(control.code),
            engine.start.eq(control.begin),
            engine.batch.ready.eq(batch.ready & engine.limit.valid & loaded & ~too_long),
            engine.batch.sequences.eq(batch.sequences),
            engine.batch.row_tiles.eq(batch.row_tiles),
            engine.batch.gathered.eq(batch.gathered),
            engine.length.en.eq(tokens.length.en),
            engine.length.address.eq(tokens.length.address),
            engine.length.data.eq(tokens.length.data),
            engine.norm_free.eq(1),
            engine.norm.ready.eq(1),
            engine.mask.en.eq(tokens.o.en),
            engine.mask.address.eq(tokens.o.address),
            engine.mask.attend.eq(tokens.o.token.attend),
            engine.bank.address.eq(read),
            engine.model.valid.eq(self.model.valid & ~control.reset),
            engine.model.payload.eq(self.model.payload),
            self.model.ready.eq(Mux(control.reset, control.drain_model, engine.model.ready)),
            tokens.i.valid.eq(self.tokens.valid & ~control.reset),
            tokens.i.payload.eq(self.tokens.payload),
            self.tokens.ready.eq(Mux(control.reset, control.drain_tokens, tokens.i.ready)),
        ]
        with m.If(control.begin):
            m.d.sync += [self.cycles.eq(1), self.active_cycles.eq(0)]
        with m.Elif(control.busy):
            m.d.sync += [
                self.cycles.eq(self.cycles + 1),
                self.active_cycles.eq(self.active_cycles + engine.activity.active),
            ]
        return m

    def _input(self, m: Module, control: Control) -> Signal:
        """Activations go into X8 in the order in which they come; returns that they all have.

        With several ways each row tile goes into the next one, once the HEADER has said how long
        a row tile is.
        """
        engine, ways, words = self.engine, self.config.ways, self.config.x8_words
        address = Signal(range(words + 1))
        loaded = Signal()
        write = self.i.valid & self.i.ready
        room, writes = address < words, Signal(ways)
        m.d.comb += [
            self.i.ready.eq(~control.reset & ~loaded),
            engine.x8.en.eq(writes),
            engine.x8.address.eq(address),
            engine.x8.data.eq(self.i.payload.data),
        ]
        with m.If(control.reset):
            m.d.sync += [address.eq(0), loaded.eq(0)]
        with m.Elif(write):
            m.d.sync += [address.eq(address + 1), loaded.eq(self.i.payload.last)]
        if ways == 1:
            m.d.comb += writes.eq(write & room)
            return loaded
        way, first = Signal(range(ways)), Signal.like(address)  # first: of the row tile
        behind = Signal.like(address)
        m.d.comb += [
            self.i.ready.eq(~control.reset & ~loaded & engine.limit.valid),
            writes.eq(Mux(write & room, 1 << way, 0)),
            behind.eq(address + room),
        ]
        with m.If(control.reset):
            m.d.sync += [first.eq(0), way.eq(0)]
        with m.Elif(write):
            m.d.sync += address.eq(behind)
            with m.If(behind - first == engine.limit.hidden):
                m.d.sync += way.eq(way + 1)
                with m.If(way == ways - 1):
                    m.d.sync += first.eq(behind)
                with m.Else():
                    m.d.sync += address.eq(first)
        return loaded

    def _output(self, m: Module, control: Control, tokens: Tokens) -> Signal:
        """Reads the context bank once the engine has finished; a word every four cycles."""
        engine = self.engine
        address = Signal.like(engine.context.address)
        left = Signal(range(self.config.x_words + 1))
        row = Signal.like(tokens.batch.row_tiles)
        ways = self.config.ways
        way, first = Signal(range(ways)), Signal.like(address)  # of the row tile
        if ways > 1:
            m.d.comb += engine.bank_way.eq(way)
        wait = Signal(range(Memory.latency + 1))
        m.d.comb += [
            self.o.payload.data.eq(engine.bank.data),
            self.o.payload.last.eq((left == 1) & (row == 1)),
        ]
        with m.FSM(name="output") as output:
            m.d.comb += control.leaving.eq(~output.ongoing("COMPUTE") & ~control.reset)
            with m.State("COMPUTE"):
                if ways > 1:
                    m.d.sync += [way.eq(0), first.eq(engine.context.address)]
                m.d.sync += [
                    address.eq(engine.context.address),
                    row.eq(tokens.batch.row_tiles),
                    left.eq(engine.context.stride),
                    wait.eq(Memory.latency),
                ]
                with m.If(~control.reset & engine.finished):
                    m.next = "READ"
            with m.State("READ"):
                m.d.sync += wait.eq(wait - 1)
                with m.If(wait == 0):
                    m.next = "SEND"
                with m.If(control.reset):  # an abort in the cycle before
                    m.next = "COMPUTE"
            with m.State("SEND"):
                m.d.comb += self.o.valid.eq(1)
                with m.If(self.o.ready):
                    m.d.sync += [
                        address.eq(address + 1),
                        left.eq(left - 1),
                        wait.eq(Memory.latency),
                    ]
                    m.next = "READ"
                    with m.If(left == 1):
                        m.d.sync += [left.eq(engine.context.stride), row.eq(row - 1)]
                        if ways > 1:
                            wraps = way == ways - 1
                            begin = Mux(wraps, address + 1, first)
                            m.d.sync += [way.eq(way + 1), address.eq(begin), first.eq(begin)]
                        with m.If(row == 1):
                            m.next = "SENT"
            with m.State("SENT"):
                m.d.comb += control.finished.eq(1)
                m.next = "COMPUTE"
        return address

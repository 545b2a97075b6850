"""The engine: one array, its memories, and the units that feed and finish it."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.control.issuer import Issuer, Stall, operand_word
from rtl.control.loader import Loader, stream_word
from rtl.control.sequencer import Sequencer
from rtl.datapath.epilogue import Epilogue
from rtl.datapath.matmul import MatMul
from rtl.datapath.softmax import Softmax
from rtl.interface.config import Config
from rtl.interface.operation import EMBED, NORM, Error
from rtl.interface.tile import NORM_ORDINAL_BITS, Operand, address_bits
from rtl.primitives.memory import Memory
from rtl.primitives.pipeline import delay

BANKS = 4


class Engine(wiring.Component):
    """Runs a command stream: loader, sequencer, issuer, array, epilogue, softmax and their buffers.

    Embedding rows, X16 and LayerNorm lie outside, so that the attention datapath alone is the same
    engine. It begins in reset and runs one inference; reset it to run the next.

    ::

        model -> Loader -> operations -> Sequencer -> tiles -> Issuer -> addresses
                   |                                              |
                 weights, parameters, table         X8, banks, weights, p -> MatMul -> Epilogue
                                                                                         |
                                 banks <- int8    softmax <- scores    X16 <- residual   logits

    The four activation banks are one address space; the two top bits of an address name the bank,
    so that Q, K, V and the context can be read and written in one cycle.

    Members
    -------
    start
        Pulse: begin.
    ready, tokens, row_tiles
        The sequence is known: its length and row tiles.
    model
        Command stream.
    norm, norm_en, norm_address, norm_gamma, norm_beta, norm_free
        NORMs and their parameters, see `Loader`.
    norms, norm_rows
        Finished NORMs and row tiles of the present one, see `Issuer`.
    publish
        Pulse: one more row tile of X16 is complete.
    mask_en, mask_address, mask_attend
        Attend bits, before `ready`.
    rows, rows_active, rows_en, rows_done, rows_last, rows_write_en, rows_write_address, ...
        EMBED: see `Loader`; the write port of the weight half in turn.
    x8_write_en, x8_write_address, x8_write_data
        Write port of X8.
    x_read_*, x_write_*, x_write_ahead
        X16 of the residual, see `Epilogue`.
    logit_en, logit_index, logit
        Logits.
    read_address, read_data
        Reads the banks while the engine is quiet; data two cycles later.
    context, context_stride
        Where the latest ATTEND puts the context, and its words a row tile.
    model_tokens, model_valid, error
        See `Loader`.
    finished
        The stream has ended well and everything is written.
    active, stall
        An operand is read in this cycle; why none will be in the next.
    trace_bank_*, trace_score_*, trace_p_*, trace_row_*
        Every write of a named intermediate, for benches; unused, they cost nothing.

    Parameters
    ----------
    config
        Limits.
    ahead
        See `Epilogue`.
    """

    def __init__(self, config: Config, ahead: int = 1) -> None:
        self.config = config
        n, address = config.lanes, address_bits(config)
        bytes_ = data.ArrayLayout(signed(8), n)
        words = data.ArrayLayout(signed(16), n)
        self.loader = Loader(config)
        self.sequencer = Sequencer(config)
        self.issuer = Issuer(config)
        self.matmul = MatMul(config)
        self.epilogue = Epilogue(config, ahead)
        self.softmax = Softmax(n, config.tokens)
        super().__init__(
            {
                "start": In(1),
                "ready": In(1),
                "tokens": In(range(config.tokens + 1)),
                "row_tiles": In(range(config.row_tiles + 1)),
                "model": In(stream.Signature(stream_word(n))),
                "norm": Out(stream.Signature(NORM)),
                "norm_en": Out(1),
                "norm_address": Out(range(config.hidden)),
                "norm_gamma": Out(signed(16)),
                "norm_beta": Out(signed(32)),
                "norm_free": In(1),
                "norms": In(NORM_ORDINAL_BITS),
                "norm_rows": In(range(config.row_tiles + 1)),
                "publish": Out(1),
                "mask_en": In(1),
                "mask_address": In(range(config.tokens)),
                "mask_attend": In(1),
                "rows": Out(EMBED),
                "rows_active": Out(1),
                "rows_en": Out(1),
                "rows_done": In(1),
                "rows_last": In(1),
                "rows_write_en": In(1),
                "rows_write_address": In(range(config.weight_words)),
                "rows_write_data": In(bytes_),
                "x8_write_en": In(1),
                "x8_write_address": In(range(config.x_words)),
                "x8_write_data": In(bytes_),
                "x_read_en": Out(1),
                "x_read_address": Out(address),
                "x_read_data": In(words),
                "x_write_en": Out(1),
                "x_write_address": Out(address),
                "x_write_data": Out(words),
                "x_write_ahead": Out(1),
                "logit_en": Out(1),
                "logit_index": Out(range(config.labels)),
                "logit": Out(signed(32)),
                "read_address": In(address),
                "read_data": Out(bytes_),
                "context": Out(address),
                "context_stride": Out(16),
                "model_tokens": Out(16),
                "model_valid": Out(1),
                "error": Out(Error),
                "finished": Out(1),
                "active": Out(1),
                "stall": Out(Stall),
                "operation": Out(8),
                "trace_bank_en": Out(1),
                "trace_bank_address": Out(address),
                "trace_bank": Out(bytes_),
                "trace_score_en": Out(1),
                "trace_score_key": Out(range(config.tokens)),
                "trace_score": Out(words),
                "trace_p_en": Out(1),
                "trace_p_key": Out(range(config.tokens)),
                "trace_p": Out(data.ArrayLayout(unsigned(8), n)),
                "trace_row_en": Out(1),
                "trace_max": Out(words),
                "trace_sum": Out(data.ArrayLayout(unsigned(20), n)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        config = self.config
        m.submodules.loader = loader = self.loader
        m.submodules.sequencer = sequencer = self.sequencer
        m.submodules.issuer = issuer = self.issuer
        m.submodules.matmul = matmul = self.matmul
        m.submodules.epilogue = epilogue = self.epilogue
        m.submodules.softmax = softmax = self.softmax
        connect(m, flipped(self.model), loader.model)
        connect(m, flipped(self.norm), loader.norm)
        connect(m, loader.operation, sequencer.i)
        connect(m, sequencer.o, issuer.i)

        def forward(source: wiring.Component, *names: str) -> None:
            """A unit's outputs that are the engine's under the same name, and its inputs."""
            for name in names:
                mine, theirs = getattr(self, name), getattr(source, name)
                inward = self.signature.members[name].flow is In
                m.d.comb += theirs.eq(mine) if inward else mine.eq(theirs)

        forward(loader, "start", "norm_en", "norm_address", "norm_gamma", "norm_beta", "norm_free")
        forward(
            loader,
            "rows",
            "rows_active",
            "rows_en",
            "rows_done",
            "rows_last",
            "model_tokens",
            "model_valid",
            "error",
        )
        forward(sequencer, "ready", "tokens", "row_tiles", "context", "context_stride")
        forward(issuer, "norms", "norm_rows", "stall", "operation")
        forward(epilogue, "publish", "logit_en", "logit_index", "logit", "x_write_ahead")
        forward(epilogue, "x_read_en", "x_read_address", "x_read_data")
        forward(epilogue, "x_write_en", "x_write_address", "x_write_data")
        forward(softmax, "mask_en", "mask_address", "mask_attend")

        m.d.comb += [
            self.active.eq(issuer.valid),
            self.finished.eq(loader.end & sequencer.idle & sequencer.quiet & ~sequencer.o.valid),
            sequencer.quiet.eq(issuer.quiet),
            issuer.weights_ready.eq(loader.weights_ready),
            issuer.softmax_finished.eq(softmax.finished),
            issuer.done.eq(epilogue.done),
            loader.release.eq(issuer.release),
            loader.release_buffer.eq(issuer.release_buffer),
            loader.parameter_release.eq(epilogue.parameter_release),
            loader.parameter_release_buffer.eq(epilogue.parameter_release_buffer),
            loader.table_done.eq(epilogue.table_done),
            epilogue.parameter_en.eq(loader.parameter_en),
            epilogue.parameter_buffer.eq(loader.parameter_buffer),
            epilogue.parameter_plane.eq(loader.parameter_plane),
            epilogue.parameter_data.eq(loader.parameter_data),
            epilogue.table_en.eq(loader.table_en),
            epilogue.table_address.eq(loader.table_address),
            epilogue.table_data.eq(loader.table_data),
            epilogue.start.eq(issuer.start),
            epilogue.tag.eq(issuer.tag),
            epilogue.column.eq(matmul.o),
            epilogue.score_m.eq(sequencer.score_m),
            epilogue.score_s.eq(sequencer.score_s),
            epilogue.row_m.eq(softmax.row_m),
            epilogue.row_s.eq(softmax.row_s),
            softmax.row_buffer.eq(epilogue.row_buffer),
            softmax.context_m.eq(sequencer.context_m),
            softmax.context_s.eq(sequencer.context_s),
            softmax.score_en.eq(epilogue.score_en),
            softmax.score_buffer.eq(epilogue.score_buffer),
            softmax.score_first.eq(epilogue.score_first),
            softmax.score_last.eq(epilogue.score_last),
            softmax.score_key.eq(epilogue.score_key),
            softmax.score_data.eq(epilogue.score_data),
            self.trace_bank_en.eq(epilogue.bank_en),
            self.trace_bank_address.eq(epilogue.bank_address),
            self.trace_bank.eq(epilogue.bank_data),
            self.trace_score_en.eq(epilogue.score_en),
            self.trace_score_key.eq(epilogue.score_key),
            self.trace_score.eq(epilogue.score_data),
            self.trace_p_en.eq(softmax.trace_p_en),
            self.trace_p_key.eq(softmax.trace_p_key),
            self.trace_p.eq(softmax.trace_p),
            self.trace_row_en.eq(softmax.trace_row_en),
            self.trace_max.eq(softmax.trace_max),
            self.trace_sum.eq(softmax.trace_sum),
        ]

        # Cycle 0: addresses. Cycle 2: the memories' words. Cycle 3: operands.
        bytes_ = data.ArrayLayout(signed(8), config.lanes)
        m.submodules.x8 = x8 = Memory(bytes_, config.x_words)
        m.submodules.weights = weights = Memory(bytes_, 2 * config.weight_words)
        m.d.comb += [
            x8.write_en.eq(self.x8_write_en),
            x8.write_address.eq(self.x8_write_address),
            x8.write_data.eq(self.x8_write_data),
            x8.read_address.eq(Mux(issuer.a == Operand.X8, issuer.a_address, issuer.b_address)),
            weights.read_address.eq(
                Mux(issuer.a == Operand.WEIGHT, issuer.a_address, issuer.b_address)
            ),
            softmax.p_address.eq(issuer.a_address),
            softmax.p_buffer.eq(issuer.tag.softmax_buffer),
        ]
        # A cycle late, and in time: a half is first read two cycles after its last word came.
        m.d.sync += [
            weights.write_en.eq(loader.weight_en | self.rows_write_en),
            weights.write_address.eq(
                Mux(loader.rows_active, self.rows_write_address, loader.weight_address)
                | Mux(loader.weight_buffer, config.weight_words, 0)
            ),
            weights.write_data.eq(
                Mux(loader.rows_active, self.rows_write_data, loader.weight_data)
            ),
        ]
        bank_bits = (config.bank_words - 1).bit_length()
        banks = []
        reading = Signal(address_bits(config))
        m.d.comb += reading.eq(Mux(issuer.valid, issuer.a_address, self.read_address))
        a_bank, b_bank = reading[bank_bits:][:2], issuer.b_address[bank_bits:][:2]
        for number, name in enumerate(("query", "key", "value", "context")):
            bank = Memory(bytes_, config.bank_words)
            m.submodules[f"{name}_bank"] = bank
            banks.append(bank.read_data)
            by_b = issuer.valid & (issuer.b == Operand.BANK) & (b_bank == number)
            m.d.comb += [
                bank.read_address.eq(Mux(by_b, issuer.b_address, reading)),
                bank.write_en.eq(
                    epilogue.bank_en & (epilogue.bank_address[bank_bits:][:2] == number)
                ),
                bank.write_address.eq(epilogue.bank_address),
                bank.write_data.eq(epilogue.bank_data),
            ]

        def later(value: Signal, name: str) -> Signal:
            return delay(m, value, Memory.latency, name)

        a_source, b_source = later(issuer.a, "a_source"), later(issuer.b, "b_source")
        a_number, b_number = later(a_bank, "a_bank"), later(b_bank, "b_bank")
        index = later(issuer.index, "index")
        a_banked, b_banked = Signal(bytes_), Signal(bytes_)
        for banked, number in ((a_banked, a_number), (b_banked, b_number)):
            with m.Switch(number):
                for case, word in enumerate(banks):
                    with m.Case(case):
                        m.d.comb += banked.eq(word)
        m.d.comb += self.read_data.eq(a_banked)
        for lane in range(config.lanes):
            one_hot = operand_word(index, lane, sequencer.token_factor, sequencer.position_factor)
            with m.Switch(a_source):
                for source, value in (
                    (Operand.X8, x8.read_data[lane]),
                    (Operand.BANK, a_banked[lane]),
                    (Operand.WEIGHT, weights.read_data[lane]),
                    (Operand.P, softmax.p_data[lane]),
                    (Operand.ONE_HOT, one_hot),
                ):
                    with m.Case(source):
                        m.d.sync += matmul.a[lane].eq(value)
            with m.Switch(b_source):
                for source, value in (
                    (Operand.X8, x8.read_data[lane]),
                    (Operand.BANK, b_banked[lane]),
                    (Operand.WEIGHT, weights.read_data[lane]),
                ):
                    with m.Case(source):
                        m.d.sync += matmul.b[lane].eq(value)
        m.d.comb += [
            matmul.valid.eq(delay(m, issuer.valid, Memory.latency + 1, "valid", reset=True)),
            matmul.first.eq(delay(m, issuer.first, Memory.latency + 1, "first", reset=True)),
            matmul.last.eq(delay(m, issuer.last, Memory.latency + 1, "last", reset=True)),
        ]
        return m

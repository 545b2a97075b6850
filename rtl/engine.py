"""The engine: one array, its memories, and the units that feed and finish it."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from rtl.control.issuer import Issuer, operand_word
from rtl.control.loader import Loader
from rtl.control.sequencer import Sequencer
from rtl.datapath.epilogue import Epilogue
from rtl.datapath.matmul import MatMul
from rtl.datapath.schedule import OPERAND
from rtl.datapath.softmax import Softmax
from rtl.interface.config import Config
from rtl.interface.operation import NORM, Error
from rtl.interface.ports import (
    Limit,
    LogitWrite,
    MaskWrite,
    NormParameterWrite,
    NormProgress,
    Region,
    ResidualAccess,
    RowsFill,
    Sequence,
    int8_word,
    stream_word,
)
from rtl.interface.tile import Operand, address_bits
from rtl.interface.trace import Activity, AttentionTrace, trace
from rtl.primitives.memory import Memory, ReadPort, WritePort
from rtl.primitives.pipeline import delay


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
    start : In, 1
        Pulse: begin.
    sequence : In, Sequence
    model : In, stream
        Command stream.
    norm, norm_parameter, norm_free, norm_progress
        NORMs and their parameters, see `Loader` and `Issuer`.
    publish : Out, 1
        Pulse: one more row tile of X16 is complete.
    mask : In, MaskWrite
        Before the sequence is ready.
    rows, rows_write : Out, RowsFill; In, WritePort
        EMBED, and the half in turn of the weights.
    x8 : In, WritePort
    x : Out, ResidualAccess
    logit : Out, LogitWrite
    bank : In, ReadPort
        Reads the banks while the engine is quiet.
    context : Out, Region
    limit : Out, Limit
    error : Out, Error
        See `Loader`; LIMIT too where the sequencer has left the banks.
    finished : Out, 1
        The stream has ended well and everything is written.
    activity : Out, Activity
    trace : Out, AttentionTrace

    Parameters
    ----------
    config
        Limits.
    ahead
        See `Epilogue`.
    encoder
        See `Rules`.
    """

    def __init__(self, config: Config, ahead: int = 1, *, encoder: bool = True) -> None:
        self.config = config
        n, word = config.lanes, int8_word(config.lanes)
        self.loader = Loader(config, encoder=encoder)
        self.sequencer = Sequencer(config)
        self.issuer = Issuer(config)
        self.matmul = MatMul(config)
        self.epilogue = Epilogue(config, ahead)
        self.softmax = Softmax(n, config.tokens)
        super().__init__(
            {
                "start": In(1),
                "sequence": In(Sequence(config)),
                "model": In(stream.Signature(stream_word(n))),
                "norm": Out(stream.Signature(NORM)),
                "norm_parameter": Out(NormParameterWrite(config.hidden)),
                "norm_free": In(1),
                "norm_progress": In(NormProgress(config)),
                "publish": Out(1),
                "mask": In(MaskWrite(config.tokens)),
                "rows": Out(RowsFill()),
                "rows_write": In(WritePort(range(config.weight_words), word)),
                "x8": In(WritePort(range(config.x_words), word)),
                "x": Out(ResidualAccess(config)),
                "logit": Out(LogitWrite(config)),
                "bank": In(ReadPort(address_bits(config), word)),
                "context": Out(Region(config)),
                "limit": Out(Limit()),
                "error": Out(Error),
                "finished": Out(1),
                "activity": Out(Activity()),
                "trace": Out(AttentionTrace(config)),
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
        for mine, theirs in (
            (self.sequence, sequencer.sequence),
            (self.context, sequencer.context),
            (self.model, loader.model),
            (self.norm, loader.norm),
            (self.norm_parameter, loader.norm_parameter),
            (self.rows, loader.rows),
            (self.limit, loader.limit),
            (self.norm_progress, issuer.progress),
            (self.activity, issuer.activity),
            (self.x, epilogue.x),
            (self.logit, epilogue.logit),
            (self.mask, softmax.mask),
        ):
            connect(m, flipped(mine), theirs)
        connect(m, loader.operation, sequencer.i)
        connect(m, loader.parameter, epilogue.parameter)
        connect(m, loader.table, epilogue.table)
        connect(m, sequencer.o, issuer.i)
        connect(m, sequencer.score_multiplier, epilogue.score_multiplier)
        connect(m, sequencer.context_multiplier, softmax.context)
        connect(m, issuer.tile, epilogue.tile)
        connect(m, issuer.release, loader.release)
        connect(m, epilogue.parameter_release, loader.parameter_release)
        connect(m, epilogue.score, softmax.score)
        connect(m, epilogue.row, softmax.row)
        m.d.comb += [
            loader.start.eq(self.start),
            loader.norm_free.eq(self.norm_free),
            loader.table_done.eq(epilogue.table_done),
            issuer.weights_ready.eq(loader.weights_ready),
            issuer.softmax_finished.eq(softmax.finished),
            issuer.done.eq(epilogue.done),
            epilogue.column.eq(matmul.o),
            sequencer.quiet.eq(issuer.quiet),
            self.publish.eq(epilogue.publish),
            self.error.eq(loader.error),
            self.finished.eq(loader.end & sequencer.idle & sequencer.quiet & ~sequencer.o.valid),
            self.trace.bank_en.eq(epilogue.bank.en),
            self.trace.bank_address.eq(epilogue.bank.address),
            self.trace.bank.eq(epilogue.bank.data),
            self.trace.score_en.eq(epilogue.score.en),
            self.trace.score_key.eq(epilogue.score.key),
            self.trace.score.eq(epilogue.score.data),
        ]
        trace(m, self.trace, softmax.trace)

        with m.If(sequencer.outside & (loader.error == Error.NONE)):
            m.d.comb += self.error.eq(Error.LIMIT)

        # Addresses, Memory.latency cycles later the words, another one later the operands.
        bytes_ = int8_word(config.lanes)
        m.submodules.x8 = x8 = Memory(bytes_, config.x_words)
        m.submodules.weights = weights = Memory(bytes_, 2 * config.weight_words)
        connect(m, flipped(self.x8), x8.write)
        m.d.comb += [
            x8.read.address.eq(
                Mux(issuer.o.a == Operand.X8, issuer.o.a_address, issuer.o.b_address)
            ),
            weights.read.address.eq(
                Mux(issuer.o.a == Operand.WEIGHT, issuer.o.a_address, issuer.o.b_address)
            ),
            softmax.p.address.eq(issuer.o.a_address),
            softmax.p.buffer.eq(issuer.tile.tag.softmax_buffer),
        ]
        # A cycle late, and in time: a half is first read two cycles after its last word came.
        m.d.sync += [
            weights.write.en.eq(loader.weight.en | self.rows_write.en),
            weights.write.address.eq(
                Mux(loader.rows.active, self.rows_write.address, loader.weight.address)
                | Mux(loader.weight.buffer, config.weight_words, 0)
            ),
            weights.write.data.eq(
                Mux(loader.rows.active, self.rows_write.data, loader.weight.data)
            ),
        ]
        bank_bits = (config.bank_words - 1).bit_length()
        banks = []
        reading = Signal(address_bits(config))
        m.d.comb += reading.eq(Mux(issuer.o.valid, issuer.o.a_address, self.bank.address))
        a_bank, b_bank = reading[bank_bits:][:2], issuer.o.b_address[bank_bits:][:2]
        for number, name in enumerate(("query", "key", "value", "context")):
            bank = Memory(bytes_, config.bank_words)
            m.submodules[f"{name}_bank"] = bank
            banks.append(bank.read.data)
            by_b = issuer.o.valid & (issuer.o.b == Operand.BANK) & (b_bank == number)
            m.d.comb += [
                bank.read.address.eq(Mux(by_b, issuer.o.b_address, reading)),
                bank.write.en.eq(
                    epilogue.bank.en & (epilogue.bank.address[bank_bits:][:2] == number)
                ),
                bank.write.address.eq(epilogue.bank.address),
                bank.write.data.eq(epilogue.bank.data),
            ]

        def later(value: Signal, name: str) -> Signal:
            return delay(m, value, Memory.latency, name)

        a_source, b_source = later(issuer.o.a, "a_source"), later(issuer.o.b, "b_source")
        a_number, b_number = later(a_bank, "a_bank"), later(b_bank, "b_bank")
        index = later(issuer.o.index, "index")
        a_banked, b_banked = Signal(bytes_), Signal(bytes_)
        for banked, number in ((a_banked, a_number), (b_banked, b_number)):
            with m.Switch(number):
                for case, word in enumerate(banks):
                    with m.Case(case):
                        m.d.comb += banked.eq(word)
        m.d.comb += self.bank.data.eq(a_banked)
        for lane in range(config.lanes):
            one_hot = operand_word(index, lane, sequencer.factor.token, sequencer.factor.position)
            with m.Switch(a_source):
                for source, value in (
                    (Operand.X8, x8.read.data[lane]),
                    (Operand.BANK, a_banked[lane]),
                    (Operand.WEIGHT, weights.read.data[lane]),
                    (Operand.P, softmax.p.data[lane]),
                    (Operand.ONE_HOT, one_hot),
                ):
                    with m.Case(source):
                        m.d.sync += matmul.a[lane].eq(value)
            with m.Switch(b_source):
                for source, value in (
                    (Operand.X8, x8.read.data[lane]),
                    (Operand.BANK, b_banked[lane]),
                    (Operand.WEIGHT, weights.read.data[lane]),
                ):
                    with m.Case(source):
                        m.d.sync += matmul.b[lane].eq(value)
        m.d.comb += [
            matmul.valid.eq(delay(m, issuer.o.valid, OPERAND, "valid", reset=True)),
            matmul.first.eq(delay(m, issuer.o.first, OPERAND, "first", reset=True)),
            matmul.last.eq(delay(m, issuer.o.last, OPERAND, "last", reset=True)),
        ]
        return m

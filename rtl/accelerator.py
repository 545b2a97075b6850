"""The accelerator: token ids in, logits out."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.control.axi import Registers, lite_members, stream_members
from rtl.control.control import Control
from rtl.control.embedding import Embedding
from rtl.control.issuer import Stall
from rtl.control.tokens import Tokens
from rtl.datapath.normalizer import Normalizer
from rtl.engine import Engine
from rtl.interface.command import MAGIC, VERSION
from rtl.interface.config import Config
from rtl.interface.operation import Error
from rtl.primitives.memory import Memory


class Accelerator(wiring.Component):
    """Engine, normalizer and embedding unit between AXI ports; no arithmetic of its own.

    An inference: write `start`; send the sequence on `tokens` (id[23:0], type[24], attend[25],
    `last`) and the whole command stream on `model`, in any order of time; answer each `request` (a
    row number of the flat embedding table) with that row's words on `rows`, in order; take the
    logits. They come after the stream's last CRC was found good. A failed inference gives no
    logits, but an error code; see `rtl.interface.operation.Error` and `Control`.

    Members
    -------
    s_axi_*
        AXI4-Lite register file, `rtl.control.axi.REGISTERS`.
    s_axis_model_*, s_axis_tokens_*, m_axis_request_*, s_axis_rows_*, m_axis_logits_*
        AXI4-Streams of N bytes, 32 bits, 32 bits, N bytes and 32 bits.
    interrupt
        High from the end of an inference, good or bad, until the next start.
    trace_*
        Every write of a named intermediate, for benches; unconnected they cost nothing.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.normalizer = Normalizer(config)
        self.engine = Engine(config, self.normalizer.ahead)
        n = config.lanes
        self._traces = {
            name: unit
            for unit in (self.engine, self.normalizer)
            for name in unit.signature.members
            if name.startswith("trace")
        }
        engine = self.engine.signature.members
        super().__init__(
            {
                **lite_members(),
                **stream_members("s_axis_model", 8 * n, In, last=True),
                **stream_members("s_axis_tokens", 32, In, last=True),
                **stream_members("m_axis_request", 32, Out),
                **stream_members("s_axis_rows", 8 * n, In),
                **stream_members("m_axis_logits", 32, Out, last=True),
                "interrupt": Out(1),
                **{n: unit.signature.members[n] for n, unit in self._traces.items()},
                "trace_x_en": Out(1),
                "trace_x_address": engine["x_write_address"],
                "trace_x": engine["x_write_data"],
                "trace_logit_en": Out(1),
                "trace_logit_index": engine["logit_index"],
                "trace_logit": engine["logit"],
                "trace_active": Out(1),
                "trace_operation": Out(8),
                "trace_stall": Out(Stall),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        config = self.config
        m.submodules.registers = registers = Registers()
        m.submodules.control = control = Control()
        engine, normalizer = self.engine, self.normalizer
        tokens, embedding = Tokens(config), Embedding(config)
        for name, unit in (
            ("engine", engine),
            ("normalizer", normalizer),
            ("tokens", tokens),
            ("embedding", embedding),
        ):
            m.submodules[name] = ResetInserter(control.reset)(unit)

        # The model and tokens streams: to the units in a run, dropped in a drain.
        m.d.comb += [
            engine.model.payload.data.eq(self.s_axis_model_tdata),
            engine.model.payload.last.eq(self.s_axis_model_tlast),
            engine.model.valid.eq(self.s_axis_model_tvalid & ~control.reset),
            self.s_axis_model_tready.eq(
                Mux(control.reset, control.drain_model, engine.model.ready)
            ),
            control.model_ended.eq(
                self.s_axis_model_tvalid & self.s_axis_model_tready & self.s_axis_model_tlast
            ),
            tokens.i.payload.data.eq(self.s_axis_tokens_tdata),
            tokens.i.payload.last.eq(self.s_axis_tokens_tlast),
            tokens.i.valid.eq(self.s_axis_tokens_tvalid & ~control.reset),
            self.s_axis_tokens_tready.eq(Mux(control.reset, control.drain_tokens, tokens.i.ready)),
            control.tokens_ended.eq(
                self.s_axis_tokens_tvalid & self.s_axis_tokens_tready & self.s_axis_tokens_tlast
            ),
        ]

        self._embedding(m, control, tokens, embedding)
        self._normalizer(m, tokens)
        sent = self._logits(m, control)

        # Known a cycle after `ready`, when nothing has left the accelerator yet.
        too_long = Signal()
        ready = tokens.valid & engine.model_valid
        m.d.sync += too_long.eq(ready & (tokens.tokens > engine.model_tokens))
        with m.If(engine.error != Error.NONE):
            m.d.comb += control.error.eq(engine.error)
        with m.Elif(tokens.error != Error.NONE):
            m.d.comb += control.error.eq(tokens.error)
        with m.Elif(too_long):
            m.d.comb += control.error.eq(Error.LENGTH)
        with m.Else():
            m.d.comb += control.error.eq(embedding.error)
        m.d.comb += [
            control.start.eq(registers.start),
            control.abort.eq(registers.abort),
            control.finished.eq(sent),
            engine.start.eq(control.begin),
            engine.ready.eq(ready),
            engine.tokens.eq(tokens.tokens),
            engine.row_tiles.eq(tokens.row_tiles),
            engine.mask_en.eq(tokens.en),
            engine.mask_address.eq(tokens.address),
            engine.mask_attend.eq(tokens.token.attend),
            embedding.ready.eq(ready),
            *(getattr(self, name).eq(getattr(unit, name)) for name, unit in self._traces.items()),
            self.trace_x_en.eq(engine.x_write_en),
            self.trace_x_address.eq(engine.x_write_address),
            self.trace_x.eq(engine.x_write_data),
            self.trace_logit_en.eq(engine.logit_en),
            self.trace_logit_index.eq(engine.logit_index),
            self.trace_logit.eq(engine.logit),
            self.trace_active.eq(engine.active),
            self.trace_operation.eq(engine.operation),
            self.trace_stall.eq(engine.stall),
        ]
        m.d.sync += normalizer.ready.eq(ready)  # long before its first row tile is complete
        self._registers(m, registers, control)
        return m

    def _embedding(self, m: Module, control: Control, tokens: Tokens, embedding: Embedding) -> None:
        engine = self.engine
        # Words asked for and not received: counted outside the reset, so that rows still to come
        # are taken and dropped after a failure.
        pending = Signal(16)
        asked = embedding.request.valid & self.m_axis_request_tready
        received = self.s_axis_rows_tvalid & self.s_axis_rows_tready
        m.d.sync += pending.eq(pending + Mux(asked, embedding.words, 0) - received)
        m.d.comb += [
            control.rows_pending.eq(pending != 0),
            embedding.pending.eq(pending),
            embedding.en.eq(tokens.en),
            embedding.address.eq(tokens.address),
            embedding.token.eq(tokens.token),
            embedding.tokens.eq(tokens.tokens),
            embedding.rows.eq(engine.rows),
            embedding.active.eq(engine.rows_active),
            embedding.fill.eq(engine.rows_en),
            engine.rows_done.eq(embedding.done),
            engine.rows_last.eq(embedding.last),
            engine.rows_write_en.eq(embedding.write_en),
            engine.rows_write_address.eq(embedding.write_address),
            engine.rows_write_data.eq(embedding.write_data),
            self.m_axis_request_tdata.eq(embedding.request.payload),
            self.m_axis_request_tvalid.eq(embedding.request.valid),
            embedding.request.ready.eq(self.m_axis_request_tready),
            embedding.i.payload.eq(self.s_axis_rows_tdata),
            embedding.i.valid.eq(self.s_axis_rows_tvalid & ~control.reset),
            self.s_axis_rows_tready.eq(Mux(control.reset, pending != 0, embedding.i.ready)),
        ]

    def _normalizer(self, m: Module, tokens: Tokens) -> None:
        engine, normalizer = self.engine, self.normalizer
        wiring.connect(m, engine.norm, normalizer.norm)
        m.d.comb += [
            normalizer.row_tiles.eq(tokens.row_tiles),
            normalizer.parameter_en.eq(engine.norm_en),
            normalizer.parameter_address.eq(engine.norm_address),
            normalizer.parameter_gamma.eq(engine.norm_gamma),
            normalizer.parameter_beta.eq(engine.norm_beta),
            engine.norm_free.eq(normalizer.free),
            engine.norms.eq(normalizer.norms),
            engine.norm_rows.eq(normalizer.rows),
            normalizer.publish.eq(engine.publish),
            normalizer.x_read_en.eq(engine.x_read_en),
            normalizer.x_read_address.eq(engine.x_read_address),
            engine.x_read_data.eq(normalizer.x_read_data),
            normalizer.x_write_en.eq(engine.x_write_en),
            normalizer.x_write_address.eq(engine.x_write_address),
            normalizer.x_write_data.eq(engine.x_write_data),
            normalizer.x_write_ahead.eq(engine.x_write_ahead),
            engine.x8_write_en.eq(normalizer.x8_write_en),
            engine.x8_write_address.eq(normalizer.x8_write_address),
            engine.x8_write_data.eq(normalizer.x8_write_data),
        ]

    def _logits(self, m: Module, control: Control) -> Signal:
        """Holds the logits until the engine has finished well, then sends them."""
        engine = self.engine
        m.submodules.logits = logits = Memory(32, self.config.labels)
        count = Signal(range(self.config.labels + 1))
        index = Signal(range(self.config.labels + 1))
        wait = Signal(range(Memory.latency + 1))
        sent = Signal()
        m.d.comb += [
            logits.write_en.eq(engine.logit_en),
            logits.write_address.eq(engine.logit_index),
            logits.write_data.eq(engine.logit),
            logits.read_address.eq(index),
            self.m_axis_logits_tdata.eq(logits.read_data),
        ]
        # Settled before the memory has answered.
        m.d.sync += self.m_axis_logits_tlast.eq(index + 1 == count)
        with m.If(engine.logit_en):
            m.d.sync += count.eq(engine.logit_index + 1)
        m.d.sync += wait.eq(Mux(wait == 0, 0, wait - 1))
        with m.FSM(name="output"):
            with m.State("COMPUTE"):
                m.d.sync += [index.eq(0), wait.eq(Memory.latency)]
                with m.If(~control.reset & engine.finished):
                    m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += self.m_axis_logits_tvalid.eq(wait == 0)
                with m.If((wait == 0) & self.m_axis_logits_tready):
                    m.d.sync += [index.eq(index + 1), wait.eq(Memory.latency)]
                    with m.If(self.m_axis_logits_tlast):
                        m.d.comb += sent.eq(1)
                        m.next = "COMPUTE"
                with m.If(control.reset):
                    m.next = "COMPUTE"
        return sent

    def _registers(self, m: Module, registers: Registers, control: Control) -> None:
        config, engine = self.config, self.engine
        for name in lite_members():
            mine, theirs = getattr(self, name), getattr(registers, name)
            inward = self.signature.members[name].flow is In
            m.d.comb += theirs.eq(mine) if inward else mine.eq(theirs)

        with m.If(control.done):
            m.d.sync += self.interrupt.eq(1)
        with m.If(registers.start & ~control.busy):
            m.d.sync += self.interrupt.eq(0)
        counters = {"cycles": control.busy, "active": control.busy & engine.active}
        for cause in ("IDLE", "WEIGHTS", "NORM", "SOFTMAX", "DRAIN"):
            counters[f"stall_{cause.lower()}"] = control.busy & (engine.stall == Stall[cause])
        for name, event in counters.items():
            counter = Signal(32, name=name)
            m.d.comb += getattr(registers, f"value_{name}").eq(counter)
            with m.If(registers.start & ~control.busy):
                m.d.sync += counter.eq(0)
            with m.Elif(event):
                m.d.sync += counter.eq(counter + 1)
        m.d.comb += [
            registers.value_id.eq(MAGIC),
            registers.value_version.eq(VERSION),
            registers.value_lanes.eq(config.lanes),
            registers.value_tokens.eq(config.tokens),
            registers.value_hidden.eq(config.hidden),
            registers.value_ffn.eq(config.ffn),
            registers.value_labels.eq(config.labels),
            registers.value_status.eq(
                Cat(control.busy, self.interrupt, Signal(6, name="unused"), control.code)
            ),
        ]

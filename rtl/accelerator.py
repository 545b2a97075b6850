"""The accelerator: token ids in, logits out."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Elaboratable, Module, Mux, ResetInserter, Shape, Signal, Value
from amaranth.lib.wiring import connect, flipped

from rtl.control.axi import AxiStream, Registers
from rtl.control.control import Control
from rtl.control.embedding import Embedding
from rtl.control.rows import RowBorder
from rtl.control.tokens import Tokens
from rtl.control.watchdog import Watchdog
from rtl.datapath.normalizer import Normalizer
from rtl.engine import Engine
from rtl.interface.command import MAGIC, VERSION
from rtl.interface.config import Config
from rtl.interface.operation import Error
from rtl.interface.registers import Register
from rtl.interface.trace import Stall, Trace
from rtl.primitives.members import In, Out, Unit, copied
from rtl.primitives.memory import DistributedMemory, Memory
from rtl.primitives.pipeline import register


class Accelerator(Unit):
    """Engine, normalizer and embedding unit between AXI ports; no arithmetic of its own.

    An inference: write 1 to `control`; send the tokens (id[23:0], type[24], attend[25], ends[26]:
    the last of its sequence) and the whole command stream, in any order of time; answer each
    request (a row number of the flat embedding table) with that row's words, tlast with each row's
    last, in order; take the logits. They come after the stream's last CRC was found good. A failed
    inference gives no logits, but an error code in `status`.

    Parameters
    ----------
    further
        As in `Registers`: for a top around this one, which is behind them.

    Attributes
    ----------
    registers, control
        Its parts, for a top around this one.
    fault, pending, full
        What such a top drives, with `further`: an error of its own; whether an end must wait;
        whether a start is refused.
    """

    def __init__(self, config: Config, further: tuple[Register, ...] = ()) -> None:
        self.config = config
        self.registers, self.control = Registers(further), Control()
        self.fault: Value = Signal(Error) if further else Const(Error.NONE, Shape.cast(Error))
        self.pending: Value = Signal() if further else Const(0)
        self.full: Value = Signal() if further else Const(0)
        self.normalizer = Normalizer(config)
        self.engine = Engine(config, self.normalizer.ahead)
        n = config.lanes
        super().__init__(
            s_axi=self.registers.signature.members["s_axi"],
            s_axis_model=In(
                AxiStream(8 * config.stream_width, last=True), "The command stream, M bytes a word."
            ),
            s_axis_tokens=In(AxiStream(32, last=True), "A token a word."),
            m_axis_request=Out(AxiStream(32), "The number of a row."),
            s_axis_rows=In(AxiStream(8 * n, last=True), "The rows asked for, N bytes a word."),
            m_axis_logits=Out(AxiStream(32, last=True), "An int32 a word."),
            interrupt=Out(
                1, "Enabled, and an end that was not acknowledged; at most until the next start."
            ),
            trace=Out(Trace(config), "For benches."),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        config = self.config
        m.submodules.registers = registers = self.registers
        m.submodules.control = control = self.control
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
            engine.model.payload.data.eq(self.s_axis_model.tdata),
            engine.model.payload.last.eq(self.s_axis_model.tlast),
            engine.model.valid.eq(self.s_axis_model.tvalid),  # nothing keeps a word of it in reset
            self.s_axis_model.tready.eq(
                Mux(control.reset, control.drain_model, engine.model.ready)
            ),
            control.model_ended.eq(
                self.s_axis_model.tvalid & self.s_axis_model.tready & self.s_axis_model.tlast
            ),
            tokens.i.payload.data.eq(self.s_axis_tokens.tdata),
            tokens.i.payload.last.eq(self.s_axis_tokens.tlast),
            tokens.i.valid.eq(self.s_axis_tokens.tvalid & ~control.reset),
            self.s_axis_tokens.tready.eq(Mux(control.reset, control.drain_tokens, tokens.i.ready)),
            control.tokens_ended.eq(
                self.s_axis_tokens.tvalid & self.s_axis_tokens.tready & self.s_axis_tokens.tlast
            ),
        ]

        watchdog = Watchdog(config)
        m.submodules.watchdog = ResetInserter(control.reset)(watchdog)
        self._watch(m, watchdog, tokens)
        self._embedding(m, control, tokens, embedding)
        self._normalizer(m)
        self._logits(m, control, tokens)

        # Known a cycle after `ready`, when nothing has left the accelerator yet.
        too_long = Signal()
        batch = tokens.batch
        ready = batch.ready & engine.limit.valid
        m.d.sync += too_long.eq(ready & (tokens.longest > engine.limit.tokens))
        with m.If(self.fault != Error.NONE):
            m.d.comb += control.error.eq(self.fault)
        with m.Elif(engine.error != Error.NONE):
            m.d.comb += control.error.eq(engine.error)
        with m.Elif(tokens.error != Error.NONE):
            m.d.comb += [control.error.eq(tokens.error), control.number.eq(tokens.number)]
        with m.Elif(too_long):
            m.d.comb += [
                control.error.eq(Error.LENGTH),
                control.number.eq(tokens.longest_number),
            ]
        with m.Elif(embedding.error != Error.NONE):
            m.d.comb += [control.error.eq(embedding.error), control.number.eq(embedding.number)]
        with m.Else():
            m.d.comb += control.error.eq(watchdog.error)
        m.d.comb += [
            control.start.eq(registers.start),
            control.abort.eq(registers.abort),
            engine.start.eq(control.begin),
            engine.batch.ready.eq(ready),
            embedding.batch.ready.eq(ready),
            engine.mask.en.eq(tokens.o.en),
            engine.mask.address.eq(tokens.o.address),
            engine.mask.attend.eq(tokens.o.token.attend),
            self.trace.x_en.eq(engine.x.write_en),
            self.trace.x_address.eq(engine.x.write_address),
            self.trace.x.eq(engine.x.write_data),
            self.trace.logit_en.eq(engine.logit.en),
            self.trace.logit_index.eq(engine.logit.index),
            self.trace.logit.eq(engine.logit.value[0]),
        ]
        for part in (engine.trace, engine.activity, normalizer.trace):
            m.d.comb += copied(self.trace, part)
        for unit in (engine, embedding, normalizer):
            m.d.comb += copied(unit.batch, batch, "sequences", "row_tiles", "gathered")
        for unit in (engine, embedding):
            m.d.comb += copied(unit.length, tokens.length)
        # Long before the normalizer's first row tile is complete.
        m.d.sync += normalizer.batch.ready.eq(ready)
        self._registers(m, registers, control)
        return m

    def _embedding(self, m: Module, control: Control, tokens: Tokens, embedding: Embedding) -> None:
        engine = self.engine
        m.submodules.rows = rows = RowBorder(self.config)
        connect(m, tokens.o, embedding.token)
        connect(m, engine.rows, embedding.rows)
        connect(m, embedding.write, engine.rows_write)
        connect(m, embedding.request, rows.request)
        connect(m, rows.o, embedding.i)
        m.d.comb += [
            rows.reset.eq(control.reset),
            control.rows_pending.eq(rows.pending | self.pending),
            self.m_axis_request.tdata.eq(rows.asked.payload),
            self.m_axis_request.tvalid.eq(rows.asked.valid),
            rows.asked.ready.eq(self.m_axis_request.tready),
            rows.i.payload.data.eq(self.s_axis_rows.tdata),
            rows.i.payload.last.eq(self.s_axis_rows.tlast),
            rows.i.valid.eq(self.s_axis_rows.tvalid),
            self.s_axis_rows.tready.eq(rows.i.ready),
        ]

    def _watch(self, m: Module, watchdog: Watchdog, tokens: Tokens) -> None:
        """Show the watchdog streams that wait or move, and the units' work."""
        engine = self.engine
        inputs = (
            (engine.model.ready, self.s_axis_model),
            (tokens.i.ready, self.s_axis_tokens),
            (self.s_axis_rows.tready, self.s_axis_rows),
        )
        waits = [ready & ~source.tvalid for ready, source in inputs]
        waits.append(engine.awaits)
        moved = [ready & source.tvalid for ready, source in inputs]
        for sink in (self.m_axis_request, self.m_axis_logits):
            waits.append(sink.tvalid & ~sink.tready)
            moved.append(sink.tvalid & sink.tready)
        moved += [engine.activity.active, engine.trace.p_en, self.normalizer.trace.norm_en]
        m.d.comb += [watchdog.waits.eq(Cat(*waits).any()), watchdog.moved.eq(Cat(*moved).any())]

    def _normalizer(self, m: Module) -> None:
        engine, normalizer = self.engine, self.normalizer
        connect(m, engine.norm, normalizer.norm)
        connect(m, engine.norm_parameter, normalizer.parameter)
        connect(m, engine.norm_progress, normalizer.progress)
        connect(m, engine.x, normalizer.x)
        connect(m, normalizer.x8, engine.x8)
        m.d.comb += [
            engine.norm_free.eq(normalizer.free),
            normalizer.row_tile_done.eq(engine.row_tile_done),
        ]

    def _logits(self, m: Module, control: Control, tokens: Tokens) -> None:
        """Holds the logits until the engine has finished well, then sends a packet a sequence.

        Where they are those of every token, a packet has one token's after the other's.
        """
        engine, config = self.engine, self.config
        every, depth = engine.logits.every, config.logit_words
        m.submodules.logits = logits = Memory(engine.logit.value.shape(), depth, config.lanes)
        m.submodules.lengths = lengths = DistributedMemory(
            range(config.tokens + 1), config.row_tiles
        )
        index, base = Signal(range(depth + 1)), Signal(range(depth + 1))
        left = Signal(range(config.labels + 1))  # logits of this sequence or token
        tokens_left = Signal(range(config.tokens + 1))  # of this sequence
        number, lane = Signal.like(tokens.batch.sequences), Signal(range(config.lanes))
        wait = Signal(range(Memory.latency + 1))
        last_sequence, sent = Signal(), Signal()
        label_last, token_last = Signal(), Signal()
        row_tile_last = (lane == config.lanes - 1) | (every & token_last)
        next_base = Signal.like(base)
        m.d.comb += [
            logits.write.en.eq(engine.logit.lanes & engine.logit.en.replicate(config.lanes)),
            logits.write.address.eq(engine.logit.index),
            logits.write.data.eq(engine.logit.value),
            logits.read.address.eq(index),
            *copied(lengths.write, tokens.length),
            lengths.read.address.eq(number),
            self.m_axis_logits.tdata.eq(logits.read.data[lane]),
            self.m_axis_logits.tlast.eq(label_last & token_last),
            sent.eq((wait == 0) & self.m_axis_logits.tready),
        ]
        # Settled before the memory has answered.
        m.d.sync += [
            label_last.eq(left == 1),
            token_last.eq(~every | (tokens_left == 1)),
            last_sequence.eq(number == tokens.batch.sequences),
            next_base.eq(base + Mux(row_tile_last, engine.logits.stride, 0)),
        ]
        m.d.sync += wait.eq(Mux(wait == 0, 0, wait - 1))
        with m.FSM(name="output"):
            with m.State("COMPUTE"):
                m.d.sync += [
                    index.eq(0),
                    base.eq(0),
                    lane.eq(0),
                    number.eq(1),
                    left.eq(engine.logits.labels),
                    wait.eq(Memory.latency),
                ]
                with m.If(tokens.length.en & (tokens.length.address == 0)):
                    m.d.sync += tokens_left.eq(tokens.length.data)
                with m.If(~control.reset & engine.finished):
                    m.next = "SEND"
            with m.State("SEND"):
                m.d.comb += [
                    self.m_axis_logits.tvalid.eq(wait == 0),
                    control.leaving.eq(~control.reset),
                ]
                with m.If(sent):
                    m.d.sync += [index.eq(index + 1), left.eq(left - 1), wait.eq(Memory.latency)]
                with m.If(sent & label_last):
                    m.d.sync += [
                        index.eq(next_base),
                        base.eq(next_base),
                        lane.eq(Mux(row_tile_last, 0, lane + 1)),
                        left.eq(engine.logits.labels),
                        tokens_left.eq(tokens_left - 1),
                    ]
                with m.If(sent & label_last & token_last):
                    m.d.sync += [number.eq(number + 1), tokens_left.eq(lengths.read.data)]
                    with m.If(last_sequence):
                        m.d.comb += control.finished.eq(1)
                        m.next = "COMPUTE"
                with m.If(control.reset):  # an abort in the cycle before
                    m.next = "COMPUTE"

    def _registers(self, m: Module, registers: Registers, control: Control) -> None:
        config, engine = self.config, self.engine
        connect(m, flipped(self.s_axi), registers.s_axi)
        ended = Signal()
        with m.If(control.done):
            m.d.sync += ended.eq(1)
        with m.Elif(registers.start):
            m.d.sync += ended.eq(0)
        # Counted three cycles later, long before anyone can look, but not in the next inference.
        busy = register(m, control.busy, "busy_before", reset=True)
        events = {
            "cycles": busy,
            "active": busy & register(m, engine.activity.active, "active_before"),
        }
        for cause in ("IDLE", "WEIGHTS", "NORM", "SOFTMAX", "DRAIN"):
            name, now = f"stall_{cause.lower()}", engine.activity.stall == Stall[cause]
            events[name] = busy & register(m, now, f"{name}_before")
        for name, happened in events.items():
            event = register(m, happened & ~registers.start, f"{name}_event", reset=True)
            counter = Signal(32, name=name)
            m.d.comb += getattr(registers.value, name).eq(counter)
            with m.If(registers.start):
                m.d.sync += counter.eq(0)
            with m.Elif(event):
                m.d.sync += counter.eq(counter + 1)
        m.d.comb += [
            registers.busy.eq(control.busy | self.full),
            registers.done.eq(control.done),
            self.interrupt.eq(registers.interrupt),
            registers.value.id.eq(MAGIC),
            registers.value.version.eq(VERSION),
            registers.value.lanes.eq(config.lanes),
            registers.value.columns.eq(config.tile_columns),
            registers.value.tokens.eq(config.tokens),
            registers.value.hidden.eq(config.hidden),
            registers.value.ffn.eq(config.ffn),
            registers.value.labels.eq(config.labels),
            registers.value.failed_sequence.eq(control.failed),
            registers.value.status.eq(
                Cat(control.busy, ended, Signal(6, name="unused"), control.code)
            ),
        ]

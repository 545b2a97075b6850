"""The normalizer: X16, and LayerNorm run over it beside the array."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Elaboratable, Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.stream import Signature as Stream
from amaranth.lib.wiring import connect, flipped

from rtl.datapath.layernorm import LayerNorm
from rtl.interface.config import Config
from rtl.interface.operation import NORM
from rtl.interface.ports.batch import Batch
from rtl.interface.ports.datapath import NormProgress, ResidualAccess
from rtl.interface.ports.loading import NormParameterWrite
from rtl.interface.trace import NormTrace
from rtl.interface.word import activation_word, int16_word
from rtl.primitives.members import In, Out, Unit
from rtl.primitives.memory import Memory, WritePort


class Normalizer(Unit):
    """Holds the residual stream and normalises each row tile as soon as its sum is complete.

    Every sum in X16 (embedding, attention output, feed-forward) is followed by exactly one NORM
    before the next sum begins, so one counter of complete row tiles is enough: it counts up with
    `row_tile_done` and begins anew when the NORM has finished. A CHAINED NORM reads what the one
    before it has written, all of which is there.

    The epilogue has both ports of X16 when it wants them: LayerNorm does not read in a cycle in
    which the epilogue reads, or in which the write that would follow meets one of the epilogue's.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.layernorm = LayerNorm(config.lanes, config.hidden, config.row_tiles)
        self.ahead = self.layernorm.latency
        super().__init__(
            batch=In(Batch(config)),
            norm=In(Stream(NORM), "NORMs, and the parameters that come before each."),
            parameter=In(NormParameterWrite(config.hidden), ...),
            free=Out(1, "No NORM is in hand: parameters may be loaded."),
            row_tile_done=In(1, "Pulse: one more row tile of X16 is complete."),
            progress=Out(NormProgress(config)),
            x=In(
                ResidualAccess(config), "The epilogue's; `ahead` cycles is this unit's attribute."
            ),
            x8=Out(
                WritePort(
                    range(config.x8_words),
                    activation_word(config.lanes, config.precise),
                    config.ways,
                ),
                "`en` has a bit for each way.",
            ),
            trace=Out(NormTrace(config)),
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        config = self.config
        m.submodules.layernorm = unit = self.layernorm
        m.submodules.x16 = x16 = Memory(int16_word(config.lanes), config.x_words, config.lanes)

        connect(m, flipped(self.parameter), unit.parameter)
        complete = Signal(range(config.row_tiles + 1))  # row tiles of the present sum
        norm = Signal(NORM, reset_less=True)
        of_batch = Mux(norm.flags.first_tile, self.batch.gathered, self.batch.row_tiles)
        tiles = Signal.like(complete, reset_less=True)
        m.d.comb += [
            unit.channels.eq(norm.channels),
            unit.tiles.eq(of_batch),
            unit.shift.eq(norm.shift),
            unit.epsilon.eq(norm.epsilon),
            unit.available.eq(Mux(norm.flags.chained, tiles, complete)),
            unit.rms.eq(norm.flags.rms),
        ]
        with m.If(self.row_tile_done):
            m.d.sync += complete.eq(complete + 1)

        with m.FSM(name="state") as fsm:
            m.d.comb += self.free.eq(fsm.ongoing("IDLE") & ~self.norm.valid)
            with m.State("IDLE"):
                m.d.comb += self.norm.ready.eq(1)
                with m.If(self.norm.valid):
                    m.d.sync += norm.eq(self.norm.payload)
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += unit.start.eq(self.batch.ready)
                m.d.sync += tiles.eq(of_batch)
                with m.If(self.batch.ready):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += self.progress.rows.eq(unit.finished)
                with m.If(unit.finished == tiles):
                    m.d.sync += self.progress.norms.eq(self.progress.norms + 1)
                    with m.If(~norm.flags.chained):
                        m.d.sync += complete.eq(0)
                    m.next = "IDLE"

        writes = unit.y_en & norm.flags.residual
        m.d.comb += [
            unit.x.busy.eq(self.x.busy),
            unit.x.data.eq(x16.read.data),
            self.x.read_data.eq(x16.read.data),
            x16.read.address.eq(Mux(self.x.read_en, self.x.read_address, unit.x.address)),
            x16.write.en.eq(
                Mux(self.x.write_en, self.x.write_lanes, writes.replicate(config.lanes))
            ),
            x16.write.address.eq(Mux(self.x.write_en, self.x.write_address, unit.y_address)),
            x16.write.data.eq(Mux(self.x.write_en, self.x.write_data, unit.y)),
            *self._operand(),
            self.trace.norm_en.eq(unit.y_en),
            self.trace.norm_address.eq(unit.y_address),
            self.trace.norm.eq(unit.y),
            self.trace.norm8.eq(unit.y8),
        ]
        self._x8_place(m, norm)
        return m

    def _x8_place(self, m: Module, norm: data.View) -> None:
        """X8's address: with c ways row tile r is the one after r div c in way r mod c."""
        unit, ways = self.layernorm, self.config.ways
        if ways == 1:
            m.d.comb += [self.x8.en.eq(unit.y_en), self.x8.address.eq(unit.y_address)]
            return
        way, address = Signal(range(ways)), Signal.like(self.x8.address)
        first = Signal.like(address)  # of the row tile
        channel = Signal(16)  # behind this one
        m.d.comb += [
            channel.eq(address - first + 1),
            self.x8.en.eq(Mux(unit.y_en, 1 << way, 0)),
            self.x8.address.eq(address),
        ]
        with m.If(unit.y_en):
            m.d.sync += address.eq(address + 1)
            with m.If(channel == norm.channels):
                m.d.sync += way.eq(way + 1)
                with m.If(way == ways - 1):
                    m.d.sync += first.eq(address + 1)
                with m.Else():
                    m.d.sync += address.eq(first)
        with m.If(unit.start):
            m.d.sync += [way.eq(0), address.eq(0), first.eq(0)]

    def _operand(self) -> list[Any]:
        """X8's word: y8, which with wide operands is the high half beside the low one."""
        unit = self.layernorm
        if not self.config.precise:
            return [self.x8.data.eq(unit.y8)]
        assignments: list[Any] = []
        for lane, word in enumerate(self.x8.data):
            y = unit.y[lane]
            above = y[7:] == 0xFF  # the high half would be 128
            assignments += [word.high.eq(unit.y8[lane]), word.low.eq(Mux(above, 127, y[:8]))]
        return assignments

"""The normalizer: X16, and LayerNorm run over it beside the array."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module, Mux, Signal, signed
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.datapath.layernorm import LayerNorm
from rtl.interface.config import Config
from rtl.interface.operation import NORM
from rtl.interface.tile import NORM_ORDINAL_BITS, address_bits
from rtl.primitives.memory import Memory


class Normalizer(wiring.Component):
    """Holds the residual stream and normalises each row tile as soon as its sum is complete.

    Every sum in X16 (embedding, attention output, feed-forward) is followed by exactly one NORM
    before the next sum begins, so one counter of complete row tiles is enough: it counts up with
    `publish` and begins anew when the NORM has finished. A CHAINED NORM reads what the one before
    it has written, all of which is there.

    The epilogue has both ports of X16 when it wants them: LayerNorm does not read in a cycle in
    which the epilogue reads, or in which the write that would follow meets one of the epilogue's.

    Members
    -------
    ready, row_tiles
        The sequence is known.
    norm, parameter_en, parameter_address, parameter_gamma, parameter_beta
        NORMs, and the parameters that come before each, see `Loader`.
    free
        No NORM is in hand: parameters may be loaded.
    publish
        Pulse: one more row tile of X16 is complete.
    norms, rows
        NORMs finished (modulo), and row tiles finished of the one in hand, as of a cycle ago.
    x_read_*, x_write_*, x_write_ahead
        The epilogue's ports, see `Epilogue`; `ahead` cycles is this unit's attribute.
    x8_write_*
        Write port of X8.
    trace_norm_en, trace_norm_address, trace_norm, trace_norm8
        Every normalised word, for benches.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.layernorm = LayerNorm(config.lanes, config.hidden, config.row_tiles)
        self.ahead = self.layernorm.latency
        address = address_bits(config)
        words = data.ArrayLayout(signed(16), config.lanes)
        bytes_ = data.ArrayLayout(signed(8), config.lanes)
        super().__init__(
            {
                "ready": In(1),
                "row_tiles": In(range(config.row_tiles + 1)),
                "norm": In(stream.Signature(NORM)),
                "parameter_en": In(1),
                "parameter_address": In(range(config.hidden)),
                "parameter_gamma": In(signed(16)),
                "parameter_beta": In(signed(32)),
                "free": Out(1),
                "publish": In(1),
                "norms": Out(NORM_ORDINAL_BITS),
                "rows": Out(range(config.row_tiles + 1)),
                "x_read_en": In(1),
                "x_read_address": In(address),
                "x_read_data": Out(words),
                "x_write_en": In(1),
                "x_write_address": In(address),
                "x_write_data": In(words),
                "x_write_ahead": In(1),
                "x8_write_en": Out(1),
                "x8_write_address": Out(range(config.x_words)),
                "x8_write_data": Out(bytes_),
                "trace_norm_en": Out(1),
                "trace_norm_address": Out(range(config.x_words)),
                "trace_norm": Out(words),
                "trace_norm8": Out(bytes_),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        config = self.config
        m.submodules.layernorm = unit = self.layernorm
        m.submodules.x16 = x16 = Memory(data.ArrayLayout(signed(16), config.lanes), config.x_words)

        complete = Signal(range(config.row_tiles + 1))  # row tiles of the present sum
        norm = Signal(NORM)
        tiles = Signal.like(complete)
        m.d.comb += [
            tiles.eq(Mux(norm.flags.first_tile, 1, self.row_tiles)),
            unit.parameter_en.eq(self.parameter_en),
            unit.parameter_address.eq(self.parameter_address),
            unit.parameter_gamma.eq(self.parameter_gamma),
            unit.parameter_beta.eq(self.parameter_beta),
            unit.channels.eq(norm.channels),
            unit.tiles.eq(tiles),
            unit.shift.eq(norm.shift),
            unit.epsilon.eq(norm.epsilon),
            unit.available.eq(Mux(norm.flags.chained, tiles, complete)),
        ]
        with m.If(self.publish):
            m.d.sync += complete.eq(complete + 1)

        # What the issuer sees is a cycle old, both alike, so that no logic lies on the way there.
        finished = Signal.like(self.norms)
        progress = Signal.like(self.rows)
        m.d.sync += [self.norms.eq(finished), self.rows.eq(progress)]

        with m.FSM(name="state") as fsm:
            m.d.comb += self.free.eq(fsm.ongoing("IDLE") & ~self.norm.valid)
            with m.State("IDLE"):
                m.d.comb += self.norm.ready.eq(1)
                with m.If(self.norm.valid):
                    m.d.sync += norm.eq(self.norm.payload)
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.comb += unit.start.eq(self.ready)
                with m.If(self.ready):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += progress.eq(unit.finished)
                with m.If(unit.finished == tiles):
                    m.d.sync += finished.eq(finished + 1)
                    with m.If(~norm.flags.chained):
                        m.d.sync += complete.eq(0)
                    m.next = "IDLE"

        writes = unit.y_en & norm.flags.residual
        m.d.comb += [
            unit.x_busy.eq(self.x_read_en | self.x_write_ahead),
            unit.x_data.eq(x16.read_data),
            self.x_read_data.eq(x16.read_data),
            x16.read_address.eq(Mux(self.x_read_en, self.x_read_address, unit.x_address)),
            x16.write_en.eq(self.x_write_en | writes),
            x16.write_address.eq(Mux(self.x_write_en, self.x_write_address, unit.y_address)),
            x16.write_data.eq(Mux(self.x_write_en, self.x_write_data, unit.y)),
            self.x8_write_en.eq(unit.y_en),
            self.x8_write_address.eq(unit.y_address),
            self.x8_write_data.eq(unit.y8),
            self.trace_norm_en.eq(unit.y_en),
            self.trace_norm_address.eq(unit.y_address),
            self.trace_norm.eq(unit.y),
            self.trace_norm8.eq(unit.y8),
        ]
        return m

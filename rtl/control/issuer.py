"""The issuer: starts a tile when its operands are there, and walks through them."""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.interface.config import Config
from rtl.interface.tile import NORM_ORDINAL_BITS, Operand, Tag, Tile, address_bits


class Stall(IntEnum):
    """Why no operand was read in a cycle.

    NONE      one was read.
    IDLE      the sequencer has no tile: the inference has not begun, has ended, or a fence waits
              until the array is quiet.
    WEIGHTS   the weight tile or the embedding rows are not loaded.
    NORM      the row tile is not normalised.
    SOFTMAX   the softmax has not finished.
    DRAIN     the tile is shorter than N and the array still drains.
    """

    NONE = 0
    IDLE = 1
    WEIGHTS = 2
    NORM = 3
    SOFTMAX = 4
    DRAIN = 5


class Issuer(wiring.Component):
    """Presents one address a cycle for operand A and one for operand B, K of them a tile.

    A tile starts as soon as its weight buffer is loaded, its row tile of X8 is normalised and its
    softmax pass has finished, in the cycle after the previous tile's last operand at the earliest;
    its last operand comes at least N cycles after the previous tile's. Nothing stalls a tile that
    has started.

    Members
    -------
    i
        Tiles, in order.
    weights_ready
        A bit for each weight buffer: its weights and parameters are there.
    release, release_buffer
        Pulse: the weight buffer's last word has been read.
    norms, norm_rows
        NORMs finished so far (modulo), and row tiles finished of the one under way.
    softmax_finished
        Pulse: one more head and row tile may be read by its context.
    done
        Pulse: the epilogue has written a tile.
    valid, first, last, a, a_address, b, b_address, index
        Operands: sources, addresses, and the number of the operand within its tile.
    tag, operation
        Of the tile in hand, valid with `valid`.
    start
        Pulse with a tile's last operand: its tag goes to the epilogue.
    quiet
        No tile is in hand or being drained.
    stall
        Why there is no operand in this cycle.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        address = address_bits(config)
        super().__init__(
            {
                "i": In(stream.Signature(Tile(config))),
                "weights_ready": In(2),
                "release": Out(1),
                "release_buffer": Out(1),
                "norms": In(NORM_ORDINAL_BITS),
                "norm_rows": In(range(config.row_tiles + 1)),
                "softmax_finished": In(1),
                "done": In(1),
                "valid": Out(1),
                "first": Out(1),
                "last": Out(1),
                "a": Out(Operand),
                "a_address": Out(address),
                "b": Out(Operand),
                "b_address": Out(address),
                "index": Out(config.length_bits),
                "tag": Out(Tag(config)),
                "operation": Out(8),
                "start": Out(1),
                "quiet": Out(1),
                "stall": Out(Stall),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        n = self.config.lanes
        tile: data.View = self.i.payload

        remaining = Signal(self.config.length_bits)
        release = Signal()
        m.d.comb += [
            self.first.eq(self.valid & (self.index == 0)),
            self.start.eq(self.last),
            self.release.eq(self.last & release),
            self.release_buffer.eq(self.tag.weight_buffer),
        ]

        # gap: the next last operand may come in gap + 1 cycles at the earliest. A tile of N or more
        # operands is always long enough.
        gap, gap_left = Signal(range(n)), Signal(range(n))
        operands, more = tile.length[: n.bit_length() - 1], tile.length[n.bit_length() - 1 :]
        m.d.comb += gap.eq(Mux(self.last, n - 1, gap_left))
        m.d.sync += gap_left.eq(Mux(gap == 0, 0, gap - 1))

        softmax_ready = Signal(2)
        behind = Signal(NORM_ORDINAL_BITS)
        m.d.comb += behind.eq(tile.norm_ordinal - self.norms)
        normalised = (behind == 0) | ((behind == 1) & (self.norm_rows > tile.row))
        loaded = self.weights_ready.bit_select(tile.tag.weight_buffer, 1)
        free = ~self.valid | self.last
        go = Signal()
        with m.If(~free):
            m.d.comb += self.stall.eq(Stall.NONE)
        with m.Elif(~self.i.valid):
            m.d.comb += self.stall.eq(Stall.IDLE)
        with m.Elif(tile.weights & ~loaded):
            m.d.comb += self.stall.eq(Stall.WEIGHTS)
        with m.Elif(tile.norm & ~normalised):
            m.d.comb += self.stall.eq(Stall.NORM)
        with m.Elif(tile.softmax & (softmax_ready == 0)):
            m.d.comb += self.stall.eq(Stall.SOFTMAX)
        with m.Elif((more == 0) & (operands <= gap)):
            m.d.comb += self.stall.eq(Stall.DRAIN)
        with m.Else():
            m.d.comb += [self.stall.eq(Stall.NONE), go.eq(1)]
        m.d.comb += self.i.ready.eq(go)

        with m.If(go):
            m.d.sync += [
                self.valid.eq(1),
                self.index.eq(0),
                self.last.eq(tile.length == 1),
                remaining.eq(tile.length),
                release.eq(tile.release),
                self.a.eq(tile.a),
                self.a_address.eq(tile.a_address),
                self.b.eq(tile.b),
                self.b_address.eq(tile.b_address),
                self.tag.eq(tile.tag),
                self.operation.eq(tile.operation),
            ]
        with m.Elif(self.valid):
            m.d.sync += [
                self.valid.eq(~self.last),
                self.index.eq(self.index + 1),
                self.last.eq(remaining == 2),
                remaining.eq(remaining - 1),
                self.a_address.eq(self.a_address + 1),
                self.b_address.eq(self.b_address + 1),
            ]

        consumed = go & tile.softmax
        m.d.sync += softmax_ready.eq(softmax_ready + self.softmax_finished - consumed)

        in_flight = Signal(8)
        m.d.sync += in_flight.eq(in_flight + go - self.done)
        m.d.comb += self.quiet.eq((in_flight == 0) & ~self.i.valid)
        return m


def operand_word(index: Signal, lane: int, token: Signal, position: Signal) -> Value:
    """Lane of the embedding's one-hot word: a_t or a_p in lane index >> 1, else 0."""
    return Mux(index >> 1 == lane, Mux(index[0], position, token), 0)

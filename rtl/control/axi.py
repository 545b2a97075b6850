"""AXI4-Stream ports and the AXI4-Lite register file, under the names that vendor tools look for."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class AxiStream(wiring.Signature):
    """An AXI4-Stream, from its source.

    Members
    -------
    tvalid : Out
        A word is offered; it stays until it is taken.
    tdata, tlast : Out
        Valid with tvalid. tlast is there if `last` asks for it.
    tready : In
        The word is taken in this cycle, if there is one.
    """

    def __init__(self, width: int, *, last: bool = False) -> None:
        members = {"tdata": Out(width), "tvalid": Out(1), "tready": In(1)}
        super().__init__(members | ({"tlast": Out(1)} if last else {}))


@dataclass(frozen=True)
class Register:
    """A 32-bit register of the map: byte address, name, what it holds."""

    address: int
    name: str
    text: str


REGISTERS = (
    Register(0x00, "id", "0x54523242, the bytes 'B2RT'"),
    Register(0x04, "version", "version of this map and of the command stream"),
    Register(0x08, "lanes", "N"),
    Register(0x0C, "tokens", "longest sequence"),
    Register(0x10, "hidden", "widest hidden state"),
    Register(0x14, "ffn", "widest feed-forward layer"),
    Register(0x18, "labels", "most logits"),
    Register(0x1C, "control", "write: 1 start, 2 or 3 abort; reads as 0"),
    Register(0x20, "status", "bit 0 busy, bit 1 done since the last start, bits 11:8 error code"),
    Register(0x24, "cycles", "clock cycles of the latest inference"),
    Register(0x28, "active", "cycles in which operands entered the array"),
    Register(0x2C, "stall_idle", "cycles without a tile: before, after, and at fences"),
    Register(0x30, "stall_weights", "cycles waiting for weights or embedding rows"),
    Register(0x34, "stall_norm", "cycles waiting for LayerNorm"),
    Register(0x38, "stall_softmax", "cycles waiting for the softmax"),
    Register(0x3C, "stall_drain", "cycles waiting for the array to drain"),
)
ADDRESS_BITS = 6
OKAY, SLVERR = 0, 2


class AxiLite(wiring.Signature):
    """AXI4-Lite of 32 bits, from the master; valid and ready as AMBA defines them."""

    def __init__(self) -> None:
        super().__init__(
            {
                "awaddr": Out(ADDRESS_BITS),
                "awprot": Out(3),
                "awvalid": Out(1),
                "awready": In(1),
                "wdata": Out(32),
                "wstrb": Out(4),
                "wvalid": Out(1),
                "wready": In(1),
                "bresp": In(2),
                "bvalid": In(1),
                "bready": Out(1),
                "araddr": Out(ADDRESS_BITS),
                "arprot": Out(3),
                "arvalid": Out(1),
                "arready": In(1),
                "rdata": In(32),
                "rresp": In(2),
                "rvalid": In(1),
                "rready": Out(1),
            }
        )


class Registers(wiring.Component):
    """The register file of `REGISTERS` behind AXI4-Lite.

    No output hangs on an input of the same cycle. Address and data of a write are taken apart, and
    act in the cycle after the later one, once the response before is taken; the response comes a
    cycle later. A write that does nothing is answered with SLVERR: to any register but `control`,
    without the strobe of byte 0, or a start while an inference is under way. Reads see the values
    of the cycle in which the address is taken.

    Members
    -------
    s_axi_*
        AXI4-Lite, 32 bits; addresses are rounded down to words.
    busy
        An inference is under way.
    start, abort
        Pulses, a cycle after the write was taken. With both bits set it is an abort alone.
    value
        What each readable register shows, under its name.
    """

    def __init__(self) -> None:
        self.readable = [r for r in REGISTERS if r.name != "control"]
        super().__init__(
            {
                "s_axi": In(AxiLite()),
                "busy": In(1),
                "start": Out(1),
                "abort": Out(1),
                "value": In(wiring.Signature({r.name: Out(32) for r in self.readable})),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()

        def word(address: Value) -> Value:
            return address[2:]

        # Write: address and data wait for each other, and for the response before to be taken.
        control = next(r.address for r in REGISTERS if r.name == "control")
        addressed, given, hit, strobe, acts = (
            Signal(name=name) for name in ("addressed", "given", "hit", "strobe", "acts")
        )
        value = Signal(2)
        m.d.comb += [
            self.s_axi.awready.eq(~addressed),
            self.s_axi.wready.eq(~given),
            acts.eq(addressed & given & ~self.s_axi.bvalid),
            self.abort.eq(acts & hit & strobe & value[1]),
            self.start.eq(acts & hit & strobe & (value == 1) & ~self.busy),
        ]
        with m.If(self.s_axi.awvalid & ~addressed):
            m.d.sync += [addressed.eq(1), hit.eq(word(self.s_axi.awaddr) == control >> 2)]
        with m.If(self.s_axi.wvalid & ~given):
            m.d.sync += [given.eq(1), value.eq(self.s_axi.wdata), strobe.eq(self.s_axi.wstrb[0])]
        with m.If(acts):
            m.d.sync += [addressed.eq(0), given.eq(0), self.s_axi.bvalid.eq(1)]
            refused = ~hit | ~strobe | ((value == 1) & self.busy)
            m.d.sync += self.s_axi.bresp.eq(Mux(refused, SLVERR, OKAY))
        with m.Elif(self.s_axi.bready):
            m.d.sync += self.s_axi.bvalid.eq(0)

        # Read.
        m.d.comb += self.s_axi.arready.eq(~self.s_axi.rvalid)
        with m.If(self.s_axi.arvalid & self.s_axi.arready):
            m.d.sync += [self.s_axi.rvalid.eq(1), self.s_axi.rdata.eq(0)]
            with m.Switch(word(self.s_axi.araddr)):
                for register in self.readable:
                    with m.Case(register.address >> 2):
                        m.d.sync += self.s_axi.rdata.eq(getattr(self.value, register.name))
        with m.Elif(self.s_axi.rready):
            m.d.sync += self.s_axi.rvalid.eq(0)
        return m

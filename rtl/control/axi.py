"""AXI4-Stream ports and the AXI4-Lite register file, under the names that vendor tools look for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Elaboratable, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member, Out


def stream_members(name: str, width: int, flow: Any, *, last: bool = False) -> dict[str, Member]:
    """tdata, tvalid, tready and tlast of an AXI4-Stream; `flow` is In for a slave."""
    back = Out if flow is In else In
    members = {
        f"{name}_tdata": flow(width),
        f"{name}_tvalid": flow(1),
        f"{name}_tready": back(1),
    }
    if last:
        members[f"{name}_tlast"] = flow(1)
    return members


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
    Register(0x1C, "control", "write: bit 0 start, bit 1 abort; reads as 0"),
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


def lite_members() -> dict[str, Member]:
    """The ports of an AXI4-Lite slave of 32 bits."""
    return {
        "s_axi_awaddr": In(ADDRESS_BITS),
        "s_axi_awprot": In(3),
        "s_axi_awvalid": In(1),
        "s_axi_awready": Out(1),
        "s_axi_wdata": In(32),
        "s_axi_wstrb": In(4),
        "s_axi_wvalid": In(1),
        "s_axi_wready": Out(1),
        "s_axi_bresp": Out(2),
        "s_axi_bvalid": Out(1),
        "s_axi_bready": In(1),
        "s_axi_araddr": In(ADDRESS_BITS),
        "s_axi_arprot": In(3),
        "s_axi_arvalid": In(1),
        "s_axi_arready": Out(1),
        "s_axi_rdata": Out(32),
        "s_axi_rresp": Out(2),
        "s_axi_rvalid": Out(1),
        "s_axi_rready": In(1),
    }


class Registers(wiring.Component):
    """The register file of `REGISTERS` behind AXI4-Lite.

    One transfer of each direction at a time. A write is taken when address and data are both
    there; it acts on `control` alone (with its byte's strobe set), any other address is answered
    with SLVERR. Reads see the values of the cycle in which the address is taken.

    Members
    -------
    s_axi_*
        AXI4-Lite, 32 bits; addresses are rounded down to words.
    start, abort
        Pulses.
    values
        `value_NAME`: what each readable register shows.
    """

    def __init__(self) -> None:
        self.readable = [r for r in REGISTERS if r.name != "control"]
        super().__init__(
            {
                **lite_members(),
                "start": Out(1),
                "abort": Out(1),
                **{f"value_{r.name}": In(32) for r in self.readable},
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()

        def word(address: Value) -> Value:
            return address[2:]

        # Write: address and data together, then the response.
        control = next(r.address for r in REGISTERS if r.name == "control")
        take = Signal()
        hit = word(self.s_axi_awaddr) == control >> 2
        m.d.comb += [
            take.eq(self.s_axi_awvalid & self.s_axi_wvalid & ~self.s_axi_bvalid),
            self.s_axi_awready.eq(take),
            self.s_axi_wready.eq(take),
        ]
        acts = take & hit & self.s_axi_wstrb[0]
        m.d.sync += [
            self.start.eq(acts & self.s_axi_wdata[0]),
            self.abort.eq(acts & self.s_axi_wdata[1]),
        ]
        with m.If(take):
            m.d.sync += [self.s_axi_bvalid.eq(1), self.s_axi_bresp.eq(SLVERR)]
            with m.If(hit):
                m.d.sync += self.s_axi_bresp.eq(OKAY)
        with m.Elif(self.s_axi_bready):
            m.d.sync += self.s_axi_bvalid.eq(0)

        # Read.
        m.d.comb += self.s_axi_arready.eq(~self.s_axi_rvalid)
        with m.If(self.s_axi_arvalid & self.s_axi_arready):
            m.d.sync += [self.s_axi_rvalid.eq(1), self.s_axi_rdata.eq(0)]
            with m.Switch(word(self.s_axi_araddr)):
                for register in self.readable:
                    with m.Case(register.address >> 2):
                        m.d.sync += self.s_axi_rdata.eq(getattr(self, f"value_{register.name}"))
        with m.Elif(self.s_axi_rready):
            m.d.sync += self.s_axi_rvalid.eq(0)
        return m

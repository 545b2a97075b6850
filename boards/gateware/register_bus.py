"""Accesses of AXI4-Lite registers, one at a time."""

from __future__ import annotations

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from rtl.control.axi import AxiLite


class Access(data.StructLayout):
    """A read of an address, or a write of `data` to it."""

    def __init__(self, address_bits: int) -> None:
        super().__init__({"write": 1, "address": address_bits, "data": 32})


class RegisterBus(wiring.Component):
    """Plays accesses on an AXI4-Lite slave.

    Members
    -------
    i : In, stream of Access
        Taken in the cycle in which the slave answers; the responses OKAY and SLVERR are alike.
    data
        What was read, in the cycle in which a read is taken.
    m_axi : Out, AxiLite
    """

    def __init__(self, address_bits: int) -> None:
        super().__init__(
            {
                "i": In(stream.Signature(Access(address_bits))),
                "data": Out(32),
                "m_axi": Out(AxiLite(address_bits)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        axi, access = self.m_axi, self.i.payload
        m.d.comb += [
            axi.awaddr.eq(access.address),
            axi.araddr.eq(access.address),
            axi.wdata.eq(access.data),
            axi.wstrb.eq(0b1111),
            self.data.eq(axi.rdata),
        ]
        for valid, ready in (("awvalid", "awready"), ("wvalid", "wready"), ("arvalid", "arready")):
            with m.If(getattr(axi, ready)):
                m.d.sync += getattr(axi, valid).eq(0)
        with m.FSM(name="access"):
            with m.State("IDLE"):
                with m.If(self.i.valid):
                    m.d.sync += [
                        axi.awvalid.eq(access.write),
                        axi.wvalid.eq(access.write),
                        axi.arvalid.eq(~access.write),
                    ]
                    m.next = "ANSWER"
            with m.State("ANSWER"):
                m.d.comb += [
                    axi.bready.eq(1),
                    axi.rready.eq(1),
                    self.i.ready.eq(axi.bvalid | axi.rvalid),
                ]
                with m.If(self.i.ready):
                    m.next = "IDLE"
        return m

"""What several accelerators share: one AXI4 read master, and one AXI4-Lite target."""

from __future__ import annotations

from amaranth.hdl import Cat, Elaboratable, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from rtl.control.axi import AxiLite
from rtl.dma.bus import AxiRead, Bus, one_core

DECERR = 3
CORE_ADDRESS_BITS = 8
"""Of the registers of one accelerator with DMA: those of the next begin 256 bytes later."""


class ReadArbiter(wiring.Component):
    """One AXI4 read master for all cores.

    Addresses are taken in turn, each core's after those of all others that ask, and are offered in
    the next cycle. ARID is the core's number, so that a memory may answer the cores in any order;
    beats go to the core that RID names, in the cycle in which they come. A core asks only for what
    it has room for and takes every beat, so that none keeps another one waiting: RREADY is always
    high.

    Members
    -------
    cores : In, array of AxiRead
    m_axi : Out, AxiRead
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        super().__init__(
            {
                "cores": In(AxiRead(one_core(bus))).array(bus.cores),
                "m_axi": Out(AxiRead(bus)),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        axi, cores, count = self.m_axi, list(self.cores), self.bus.cores
        latest, chosen = Signal(range(count)), Signal(range(count))
        asks, free = Signal(), Signal()
        m.d.comb += [
            asks.eq(Cat(core.arvalid for core in cores).any()),
            free.eq(~axi.arvalid | axi.arready),
        ]
        with m.Switch(latest):
            for number in range(count):
                with m.Case(number):
                    # The last one that asks here is the first after `number`.
                    for behind in reversed(range(1, count + 1)):
                        other = (number + behind) % count
                        with m.If(cores[other].arvalid):
                            m.d.comb += chosen.eq(other)
        with m.If(free):
            m.d.sync += axi.arvalid.eq(asks)
        with m.If(free & asks):
            m.d.sync += [latest.eq(chosen), axi.arid.eq(chosen)]
        for number, core in enumerate(cores):
            with m.If(free & (chosen == number)):
                m.d.comb += core.arready.eq(1)
                m.d.sync += [axi.araddr.eq(core.araddr), axi.arlen.eq(core.arlen)]
            m.d.comb += [
                core.rdata.eq(axi.rdata),
                core.rresp.eq(axi.rresp),
                core.rlast.eq(axi.rlast),
                core.rvalid.eq(axi.rvalid & (axi.rid == number)),
            ]
        for name in ("arsize", "arburst", "arlock", "arcache", "arprot", "arqos"):
            m.d.comb += getattr(axi, name).eq(getattr(cores[0], name))
        m.d.comb += axi.rready.eq(1)
        return m


class RegisterSplit(wiring.Component):
    """One AXI4-Lite target for the registers of all cores, those of core k from k * 256 on.

    A write and a read are under way at a time, each a cycle longer than the core takes; address and
    data of a write may come apart. Beyond the last core both end with DECERR. No output hangs on an
    input of s_axi in the same cycle.

    Members
    -------
    s_axi : In, AxiLite
    cores : Out, array of AxiLite
    """

    def __init__(self, cores: int) -> None:
        self.count = cores
        bits = (cores - 1).bit_length()
        super().__init__(
            {
                "s_axi": In(AxiLite(CORE_ADDRESS_BITS + bits)),
                "cores": Out(AxiLite(CORE_ADDRESS_BITS)).array(cores),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        self._writes(m)
        self._reads(m)
        return m

    def _writes(self, m: Module) -> None:
        axi = self.s_axi
        address, protection = Signal.like(axi.awaddr), Signal.like(axi.awprot)
        busy, offered, given = Signal(), Signal(), Signal()  # given: the data were
        number = address[CORE_ADDRESS_BITS:]
        m.d.comb += axi.awready.eq(~busy)
        with m.If(axi.awvalid & ~busy):
            m.d.sync += [
                address.eq(axi.awaddr),
                protection.eq(axi.awprot),
                busy.eq(1),
                offered.eq(1),
                given.eq(0),
            ]
        for core in self.cores:
            m.d.comb += [
                core.awaddr.eq(address),
                core.awprot.eq(protection),
                core.wdata.eq(axi.wdata),
                core.wstrb.eq(axi.wstrb),
            ]
        with m.If(busy), m.Switch(number):
            for place, core in enumerate(self.cores):
                with m.Case(place):
                    m.d.comb += [
                        core.awvalid.eq(offered),
                        core.wvalid.eq(axi.wvalid & ~given),
                        axi.wready.eq(core.wready & ~given),
                        axi.bvalid.eq(core.bvalid),
                        axi.bresp.eq(core.bresp),
                        core.bready.eq(axi.bready),
                    ]
                    with m.If(core.awready):
                        m.d.sync += offered.eq(0)
            with m.Default():
                m.d.comb += [axi.wready.eq(~given), axi.bvalid.eq(given), axi.bresp.eq(DECERR)]
        with m.If(axi.wvalid & axi.wready):
            m.d.sync += given.eq(1)
        with m.If(axi.bvalid & axi.bready):
            m.d.sync += busy.eq(0)

    def _reads(self, m: Module) -> None:
        axi = self.s_axi
        address, protection = Signal.like(axi.araddr), Signal.like(axi.arprot)
        busy, offered = Signal(), Signal()
        m.d.comb += axi.arready.eq(~busy)
        with m.If(axi.arvalid & ~busy):
            m.d.sync += [
                address.eq(axi.araddr),
                protection.eq(axi.arprot),
                busy.eq(1),
                offered.eq(1),
            ]
        for core in self.cores:
            m.d.comb += [core.araddr.eq(address), core.arprot.eq(protection)]
        with m.If(busy), m.Switch(address[CORE_ADDRESS_BITS:]):
            for place, core in enumerate(self.cores):
                with m.Case(place):
                    m.d.comb += [
                        core.arvalid.eq(offered),
                        axi.rvalid.eq(core.rvalid),
                        axi.rdata.eq(core.rdata),
                        axi.rresp.eq(core.rresp),
                        core.rready.eq(axi.rready),
                    ]
                    with m.If(core.arready):
                        m.d.sync += offered.eq(0)
            with m.Default():
                m.d.comb += [axi.rvalid.eq(1), axi.rresp.eq(DECERR)]
        with m.If(axi.rvalid & axi.rready):
            m.d.sync += busy.eq(0)

"""A window onto memory for an AXI4 read master."""

from __future__ import annotations

from litex.gen import LiteXModule
from litex.soc.interconnect.axi import RESP_DECERR, AXIInterface
from migen import If, Signal


class ReadGuard(LiteXModule):
    """Bursts that lie in a window pass; every other one is answered here, with DECERR.

    LiteX's interconnect answers a burst at an address without a slave with one beat, after a
    time-out, and a master that reads something else than memory may do harm: a wrong address must
    not come to the bus. A burst is answered here once all before it are, since they have one ID;
    its beats come in consecutive cycles. What passes is not delayed.

    Parameters
    ----------
    master
        Of bursts INCR of whole beats; only its read channels are used.
    bus
        What stands for it at the bus, of the same widths.
    origin, size
        The window in bytes, a multiple of 4096 each: no burst crosses such a one.
    outstanding
        Most bursts that the master has under way.
    """

    def __init__(
        self, master: AXIInterface, bus: AXIInterface, origin: int, size: int, outstanding: int
    ) -> None:
        inside, passes, ends = Signal(), Signal(), Signal()
        refusing, left = Signal(), Signal.like(master.ar.len)
        under_way = Signal(max=outstanding + 1)
        address = master.ar.addr
        self.comb += [
            inside.eq((address >= origin) & (address <= origin + size - 1)),
            passes.eq(inside & ~refusing),
            master.ar.connect(bus.ar, omit={"valid", "ready"}),
            bus.ar.valid.eq(master.ar.valid & passes),
            If(passes, master.ar.ready.eq(bus.ar.ready)).Else(
                master.ar.ready.eq(~refusing & (under_way == 0))
            ),
            If(
                refusing,
                master.r.valid.eq(1),
                master.r.last.eq(left == 0),
                master.r.resp.eq(RESP_DECERR),
            ).Else(
                bus.r.connect(master.r),
            ),
            ends.eq(bus.r.valid & bus.r.ready & bus.r.last),
        ]
        self.sync += [
            under_way.eq(under_way + (bus.ar.valid & bus.ar.ready) - ends),
            If(
                refusing,
                If(master.r.ready, left.eq(left - 1), refusing.eq(left != 0)),
            ).Elif(
                master.ar.valid & master.ar.ready & ~inside,
                left.eq(master.ar.len),
                refusing.eq(1),
            ),
        ]

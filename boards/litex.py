"""The accelerator with DMA as a part of any LiteX SoC, with or without a CPU.

`add_accelerator(soc, facts)` adds it. `facts` is the content of accelerator_dma.json, which
`rtl.generate accelerator --dma` writes beside the Verilog: module, ports and bus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from cli.errors import UserError

from litedram.frontend.axi import LiteDRAMAXI2NativeR
from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect.axi import RESP_DECERR, AXIConverter, AXIInterface, AXILiteInterface
from migen import ClockSignal, If, Instance, ResetSignal, Signal

from rtl.dma.bus import DATA_BITS

Facts = Mapping[str, Any]

BASE = 0x9000_0000
"""Address of the registers, which LiteX's RISC-V CPUs do not cache."""
REGISTER_BYTES = 0x1000
READ_AHEAD = 64
"""LiteDRAM words on their way, which covers its latency and the opening of a row."""


class Accelerator(LiteXModule):
    """An instance of the Verilog.

    Attributes
    ----------
    registers
        AXI4-Lite slave.
    memory
        AXI4 master that only reads.
    ev
        ev.irq is the interrupt, a level; LiteX looks for it there.
    """

    def __init__(self, facts: Facts) -> None:
        bus = facts["bus"]
        self.registers = AXILiteInterface(data_width=32, address_width=32)
        self.memory = AXIInterface(bus["data_bits"], bus["address_bits"], id_width=1)
        self.ev = SimpleNamespace(irq=Signal())
        signals = {"clk": ClockSignal(), "rst": ResetSignal(), "interrupt": self.ev.irq}
        signals |= _signals("s_axi", self.registers, ("aw", "w", "b", "ar", "r"))
        signals |= _signals("m_axi", self.memory, ("ar", "r"))
        self.specials += Instance(
            facts["module"],
            **{
                f"{port['direction'][0]}_{name}": signals[name]
                for name, port in facts["ports"].items()
            },
        )


def _signals(prefix: str, interface: Any, channels: Sequence[str]) -> dict[str, Any]:
    """The signals of an interface by their names in AXI."""
    found: dict[str, Any] = {}
    for channel in channels:
        endpoint = getattr(interface, channel)
        names = ["valid", "ready", "last"]
        names += [name for name, *_ in (*endpoint.payload.layout, *endpoint.param.layout)]
        found |= {f"{prefix}_{channel}{name}": getattr(endpoint, name) for name in names}
    return found


class ReadGuard(LiteXModule):
    """Pass the bursts of an AXI4 read master inside a window; answer the others with DECERR.

    LiteX's interconnect answers a burst at an address without a slave with one beat, after a
    time-out, and LiteDRAM wraps the address around. A burst is refused once all bursts before it
    are answered, since they have one ID; its beats come in consecutive cycles. Bursts inside the
    window are not delayed.

    Parameters
    ----------
    master
        Sends bursts INCR of whole beats; only its read channels are used.
    bus
        The same master as the memory sees it, of the same widths.
    origin, size
        The window in bytes, each a multiple of 4096, which no burst crosses.
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


class DramReader(LiteXModule):
    """Connect an AXI4 read master to a port of its own at a LiteDRAM controller.

    A master of 32 bits reads two words of a controller of 16 bits for each of its beats; wider
    controllers have the master's width.
    """

    def __init__(self, master: AXIInterface, port: Any, origin: int) -> None:
        narrow = AXIInterface(port.data_width, master.address_width, id_width=1)
        self.converter = AXIConverter(master, narrow)
        self.reader = LiteDRAMAXI2NativeR(narrow, port, READ_AHEAD, origin)
        self.comb += self.reader.cmd_grant.eq(1)


def memory_bits(soc: SoCCore) -> int:
    """The width of the accelerator's bus in this SoC: LiteDRAM's, or that of the SoC's bus."""
    dram = getattr(soc, "sdram", None)
    width = dram.crossbar.controller.data_width if dram else soc.bus.data_width
    return min(max(int(width), DATA_BITS[0]), DATA_BITS[-1])


def add_accelerator(soc: SoCCore, facts: Facts, memory: str = "main_ram") -> None:
    """Add the accelerator to a SoC: registers at BASE, reads of the memory, the CPU's interrupt.

    It is soc.accelerator. It reads through a LiteDRAM port of its own, or as a master on the SoC's
    bus where there is no LiteDRAM. Firmware finds ACCELERATOR_BASE in LiteX's mem.h and
    ACCELERATOR_INTERRUPT in its soc.h. The Verilog is added to the platform by the caller.

    Parameters
    ----------
    facts
        Of an accelerator whose beats have `memory_bits(soc)` bits.
    memory
        The region that it may read; a read outside is answered with DECERR.

    Raises
    ------
    ValueError
        The widths differ, or an L2 cache holds back what is written to the memory.
    """
    bus, bits = facts["bus"], memory_bits(soc)
    if bus["data_bits"] != bits:
        raise UserError(
            f"data_bits is {bus['data_bits']}: the memory of this SoC is read in beats of {bits} "
            "bits, take as many"
        )
    dram = getattr(soc, "sdram", None)
    if dram and hasattr(soc, "l2_cache"):
        raise UserError(
            "the SoC has an L2 cache, which the accelerator does not see: make it with l2_size=0"
        )
    soc.accelerator = accelerator = Accelerator(facts)
    region = SoCRegion(origin=BASE, size=REGISTER_BYTES, cached=False)
    soc.bus.add_slave("accelerator", accelerator.registers, region)
    window, own = soc.bus.regions[memory], accelerator.memory
    guarded = AXIInterface(own.data_width, own.address_width, id_width=1)
    soc.accelerator_guard = ReadGuard(own, guarded, window.origin, window.size, bus["outstanding"])
    if dram:
        port = dram.crossbar.get_port(mode="read")
        soc.accelerator_reader = DramReader(guarded, port, window.origin)
    else:
        soc.bus.add_master("accelerator", guarded)
    if soc.irq.enabled:
        soc.irq.add("accelerator")

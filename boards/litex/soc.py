"""The accelerator with DMA as a part of LiteX SoCs.

`add_accelerator(soc, facts)` puts it into any that has memory on its bus; `SimulatedSoC` is a small
one with a CPU, for LiteX's simulation. `facts` is what `rtl.generate accelerator --dma`
writes into accelerator_dma.json, beside the Verilog: module, ports and bus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from litex.build.generic_platform import Pins, Subsignal
from litex.build.sim import SimPlatform
from litex.build.sim.platform import SimFinish
from litex.gen import LiteXModule
from litex.soc.integration.soc import SoCRegion
from litex.soc.integration.soc_core import SoCCore
from litex.soc.interconnect.axi import AXIInterface, AXILiteInterface
from migen import ClockSignal, Instance, ResetSignal, Signal
from migen.genlib.io import CRG

from boards.litex.guard import ReadGuard

Facts = Mapping[str, Any]

BASE = 0x9000_0000
"""Of the registers: in the part of the addresses that LiteX's RISC-V CPUs do not cache."""
REGISTER_BYTES = 0x1000
CLOCK_HZ = 1_000_000
"""LiteX's simulation has a time; nothing here depends on it."""
ROM_BYTES, STACK_BYTES = 0x4000, 0x1000

_STREAM = (("valid", 1), ("ready", 1), ("data", 8))
_PADS = (
    ("sys_clk", 0, Pins(1)),
    (
        "serial",
        0,
        *(
            Subsignal(f"{side}_{name}", Pins(bits))
            for side in ("source", "sink")
            for name, bits in _STREAM
        ),
    ),
)


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
    """The signals of an interface by the names that AXI gives them."""
    found: dict[str, Any] = {}
    for channel in channels:
        endpoint = getattr(interface, channel)
        names = ["valid", "ready", "last"]
        names += [name for name, *_ in (*endpoint.payload.layout, *endpoint.param.layout)]
        found |= {f"{prefix}_{channel}{name}": getattr(endpoint, name) for name in names}
    return found


def add_accelerator(soc: SoCCore, facts: Facts, memory: str = "main_ram") -> None:
    """Add the accelerator to a SoC: its registers at BASE, its master, its interrupt.

    It is soc.accelerator. Firmware finds ACCELERATOR_BASE in LiteX's mem.h and
    ACCELERATOR_INTERRUPT in its soc.h. The Verilog has to be added to the platform, too.

    Parameters
    ----------
    facts
        Of one whose beats are as wide as the bus of the SoC.
    memory
        The region that it may read (ReadGuard); nothing else answers it but with DECERR.

    Raises
    ------
    ValueError
        The widths differ.
    """
    bus = facts["bus"]
    if bus["data_bits"] != soc.bus.data_width:
        raise ValueError(
            f"data_bits is {bus['data_bits']}: the bus of this SoC has "
            f"{soc.bus.data_width} bits, take as many"
        )
    soc.accelerator = accelerator = Accelerator(facts)
    region = SoCRegion(origin=BASE, size=REGISTER_BYTES, cached=False)
    soc.bus.add_slave("accelerator", accelerator.registers, region)
    window, own = soc.bus.regions[memory], accelerator.memory
    guarded = AXIInterface(own.data_width, own.address_width, id_width=1)
    soc.accelerator_guard = ReadGuard(own, guarded, window.origin, window.size, bus["outstanding"])
    soc.bus.add_master("accelerator", guarded)
    soc.irq.add("accelerator")


class SimulatedSoC(SoCCore):
    """VexRiscv without a data cache, ROM, memory, UART, the accelerator, an end of the simulation.

    Parameters
    ----------
    standard
        LiteX's word for the bus on which all of them are: "axi" or "wishbone".
    memory_bytes
        Of the memory, a power of two of 4096 or more.
    """

    def __init__(self, facts: Facts, memory_bytes: int, standard: str) -> None:
        platform = SimPlatform("SIM", list(_PADS))
        self.crg = CRG(platform.request("sys_clk"))
        super().__init__(
            platform,
            clk_freq=CLOCK_HZ,
            bus_standard=standard,
            bus_data_width=facts["bus"]["data_bits"],
            cpu_variant="lite",
            integrated_rom_size=ROM_BYTES,
            integrated_sram_size=STACK_BYTES,
            integrated_main_ram_size=memory_bytes,
            uart_name="sim",
            with_timer=False,
        )
        add_accelerator(self, facts)
        self.finish = SimFinish()
        self.comb += platform.trace.eq(0)

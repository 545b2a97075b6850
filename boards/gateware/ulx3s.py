"""The top of the ULX3S with an ECP5-85F: its pins, its clocks, and the gateware between them.

A register lies in the pad of each pin of the SDRAM, so that all of them leave and arrive alike. The
chip's clock is `PHASE` behind the clock of these registers: what leaves with an edge is taken by
the chip at its next edge, a quarter of a period later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amaranth.hdl import (
    ClockDomain,
    ClockSignal,
    Elaboratable,
    Instance,
    IOPort,
    Module,
    Signal,
    Value,
)
from amaranth.lib import io
from amaranth.lib.cdc import ResetSynchronizer

from boards.gateware.pll import Dividers
from boards.gateware.system import Choices, System
from rtl.accelerator_dma import AcceleratorDma
from rtl.dma.bus import Bus
from rtl.interface.config import Config

NAME = "ulx3s"
CRYSTAL_MHZ = 25
PHASE = 90
"""Degrees. The chip's data are there tAC (6 ns at most) and two pads behind its clock, which has to
be before the next edge; its setup and hold (1.5 and 0.8 ns) are within the quarter."""
DELAY = 1
"""Cycles: the two registers of the pads, less the one that the phase saves."""

#: Ports in the order of the Verilog, and their widths.
PINS = {
    "clk_25mhz": 1, "ftdi_rxd": 1, "ftdi_txd": 1, "led": 8, "wifi_gpio0": 1,
    "flash_csn": 1, "flash_mosi": 1, "flash_miso": 1, "flash_holdn": 1, "flash_wpn": 1,
    "sdram_clk": 1, "sdram_cke": 1, "sdram_csn": 1, "sdram_rasn": 1, "sdram_casn": 1,
    "sdram_wen": 1, "sdram_ba": 2, "sdram_a": 13, "sdram_dqm": 2, "sdram_d": 16,
}  # fmt: skip


class Ulx3s(Elaboratable):
    """The gateware of the board.

    Parameters
    ----------
    choices, accelerator
        Of `System`.

    Attributes
    ----------
    ports
        The pins by name, in the order of `PINS`. The computer receives from ftdi_rxd and sends to
        ftdi_txd. led[0] to led[3]: the PLL has locked, the SDRAM is initialised, there is an image
        to use, an inference is under way.

    Raises
    ------
    ValueError
        The PLL cannot make the clock.
    """

    def __init__(
        self, choices: Choices, accelerator: Callable[[Config, Bus], Any] = AcceleratorDma
    ) -> None:
        self.choices, self.accelerator = choices, accelerator
        self.dividers = Dividers.of(CRYSTAL_MHZ, choices.megahertz)
        self.ports = {name: IOPort(width, name=name) for name, width in PINS.items()}

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()

        def pad(direction: str, name: str) -> io.Buffer:
            port = io.SingleEndedPort(self.ports[name])
            m.submodules[f"pad_{name}"] = buffer = io.Buffer(direction, port)
            return buffer

        crystal, locked, shifted = pad("i", "clk_25mhz").i, Signal(), Signal()
        self._clocks(m, crystal, locked, shifted)
        m.submodules.system = system = System(self.choices, DELAY, self.accelerator)

        m.d.comb += [
            pad("o", "ftdi_rxd").o.eq(system.tx),
            system.rx.eq(pad("i", "ftdi_txd").i),
            pad("o", "led")
            .o[:4]
            .eq(locked | system.ready << 1 | system.in_use << 2 | system.running << 3),
            # Low would have the WiFi module reset the FPGA.
            pad("o", "wifi_gpio0").o.eq(1),
            pad("o", "flash_csn").o.eq(~system.flash.select),
            pad("o", "flash_mosi").o.eq(system.flash.o),
            pad("o", "flash_holdn").o.eq(1),
            pad("o", "flash_wpn").o.eq(1),
            system.flash.i.eq(pad("i", "flash_miso").i),
        ]
        # The pin of the flash's clock belongs to configuration and is reached through this cell.
        # It has no output, so nothing but `keep` keeps it.
        m.submodules.flash_clock = Instance(
            "USRMCLK", a_keep=1, i_USRMCLKI=system.flash.clock, i_USRMCLKTS=0
        )
        m.submodules.sdram_clock = Instance(
            "ODDRX1F", i_D0=1, i_D1=0, i_SCLK=shifted, i_RST=0, o_Q=pad("o", "sdram_clk").o
        )
        self._sdram(m, pad, system)
        return m

    def _clocks(self, m: Module, crystal: Signal, locked: Signal, shifted: Signal) -> None:
        """`sync` from the PLL, in reset until it has locked, and the clock of the SDRAM."""
        m.domains.sync = sync = ClockDomain()
        dividers = self.dividers
        coarse, fine = dividers.shift(PHASE)
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_ICP_CURRENT="12",
            a_LPF_RESISTOR="8",
            a_MFG_ENABLE_FILTEROPAMP="1",
            a_MFG_GMCREF_SEL="2",
            p_PLLRST_ENA="DISABLED",
            p_INTFB_WAKE="DISABLED",
            p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED",
            p_OUTDIVIDER_MUXA="DIVA",
            p_OUTDIVIDER_MUXB="DIVB",
            p_CLKI_DIV=dividers.reference,
            p_CLKFB_DIV=dividers.feedback,
            p_FEEDBK_PATH="CLKOP",
            p_CLKOP_ENABLE="ENABLED",
            p_CLKOP_DIV=dividers.output,
            p_CLKOP_CPHASE=dividers.output - 1,
            p_CLKOP_FPHASE=0,
            p_CLKOS_ENABLE="ENABLED",
            p_CLKOS_DIV=dividers.output,
            p_CLKOS_CPHASE=coarse,
            p_CLKOS_FPHASE=fine,
            i_CLKI=crystal,
            i_CLKFB=sync.clk,
            i_RST=0,
            i_STDBY=0,
            i_PHASESEL0=0,
            i_PHASESEL1=0,
            i_PHASEDIR=1,
            i_PHASESTEP=1,
            i_PHASELOADREG=1,
            i_PLLWAKESYNC=0,
            i_ENCLKOP=0,
            i_ENCLKOS=0,
            o_CLKOP=sync.clk,
            o_CLKOS=shifted,
            o_LOCK=locked,
        )
        m.submodules.reset = ResetSynchronizer(~locked, domain="sync")

    def _sdram(self, m: Module, pad: Callable[[str, str], io.Buffer], system: System) -> None:
        """A register in each pad, and in each direction of the data."""
        pins = system.sdram

        def register(kind: str, name: str, i: Value, o: Value) -> None:
            clear = "i_PD" if kind.endswith("BX") else "i_CD"
            m.submodules[name] = Instance(
                kind, i_D=i, i_SCLK=ClockSignal(), i_SP=1, o_Q=o, **{clear: 0}
            )

        def leaving(name: str, value: Value, start: int) -> Value:
            """`value` out of registers that hold `start` before the first clock."""
            out = Signal(len(value), name=name)
            for i in range(len(value)):
                register("OFS1P3BX" if start else "OFS1P3DX", f"{name}_{i}", value[i], out[i])
            return out

        command = pins.command
        for name, value, start in (
            ("sdram_cke", pins.enable, 0),
            ("sdram_rasn", ~command[2], 1),
            ("sdram_casn", ~command[1], 1),
            ("sdram_wen", ~command[0], 1),
            ("sdram_ba", pins.bank, 0),
            ("sdram_a", pins.address, 0),
            ("sdram_dqm", pins.mask, 1),
        ):
            m.d.comb += pad("o", name).o.eq(leaving(f"{name}_register", value, start))
        m.d.comb += pad("o", "sdram_csn").o.eq(0)
        out = leaving("sdram_d_out", pins.o, 0)
        for i in range(PINS["sdram_d"]):
            free, arrived = Signal(name=f"free_{i}"), Signal(name=f"arrived_{i}")
            register("OFS1P3BX", f"sdram_d_free_{i}", ~pins.oe, free)
            register("IFS1P3DX", f"sdram_d_in_{i}", arrived, pins.i[i])
            m.submodules[f"pad_sdram_d_{i}"] = Instance(
                "BB", i_I=out[i], i_T=free, o_O=arrived, io_B=self.ports["sdram_d"][i]
            )

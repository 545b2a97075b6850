"""Everything on the board but its pads and clocks: accelerator, memory, flash, serial line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Elaboratable, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from boards.gateware.axi import AxiMemory
from boards.gateware.chip import Chip, Cycles
from boards.gateware.flash import SpiPins
from boards.gateware.flash_loader import FlashLoader
from boards.gateware.frames import FrameReceiver, FrameSender
from boards.gateware.image import ImageCheck
from boards.gateware.inference import Inference
from boards.gateware.sdram import Sdram, SdramPins
from boards.gateware.server import Server
from boards.gateware.uart import Receiver, Transmitter, cycles_a_bit
from boards.protocol import ALIGNMENT, BAUD, LONGEST, LONGEST_REPLY, Info, Problem
from rtl.accelerator_dma import AcceleratorDma
from rtl.dma.bus import Bus
from rtl.interface.command import VERSION
from rtl.interface.config import Config

LENGTH_BITS = 16
BYTE_BITS = 10
"""Of a byte on the serial line."""
WRITE_CYCLES = 64
"""That a WRITE takes beside one for each word: rows opened, refreshes."""
FLASH_HALF = 2
"""Cycles of half a period of the flash's clock."""
FLASH_WAKE_NS = 30_000
IMAGE_IN_FLASH = 0x20_0000
"""Behind the largest bitstream of an ECP5-85F."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The free choices of a board's gateware.

    Parameters
    ----------
    config
        Of the accelerator.
    megahertz
        The clock of everything.
    baud
        Of the serial line.
    longest
        Bytes of the longest payload of a request, 12 or more, 4 above a multiple of 8. A WRITE of
        them must be in the memory within a byte's time, before the next frame begins.
    chip
        The SDRAM.

    Raises
    ------
    ValueError
        They do not go together; the message says why.
    """

    config: Config = field(default_factory=Config)
    megahertz: float = 62.5
    baud: int = BAUD
    longest: int = LONGEST
    chip: Chip = field(default_factory=Chip)

    def __post_init__(self) -> None:
        Cycles.of(self.chip, self.megahertz)
        if not 12 <= self.longest <= LONGEST or self.longest % ALIGNMENT != 4:
            raise ValueError(
                f"longest is {self.longest}: it must be 4 above a multiple of {ALIGNMENT}, in "
                f"12..{LONGEST}"
            )
        sequences = self.config.gathered_tiles * self.config.lanes
        most = (LONGEST_REPLY - 4) // 4 // sequences
        if self.config.labels > most:
            raise ValueError(
                f"labels is {self.config.labels}: a reply has room for {most} of each of "
                f"{sequences} sequences"
            )
        least = (self.longest - 4) // 2 + WRITE_CYCLES
        if BYTE_BITS * self.bit < least:
            raise ValueError(
                f"longest is {self.longest}: a WRITE of it takes {least} cycles, a byte at "
                f"{self.baud} baud only {BYTE_BITS * self.bit}: take less"
            )

    @property
    def bit(self) -> int:
        """Clock cycles of a bit of the serial line."""
        return cycles_a_bit(self.megahertz, self.baud)

    @property
    def info(self) -> Info:
        """What INFO answers without an image."""
        config = self.config
        return Info(
            problem=Problem.EMPTY,
            longest=self.longest,
            memory_bytes=2 << self.chip.address_bits,
            kilohertz=round(1000 * self.megahertz),
            stream_version=VERSION,
            lanes=config.lanes,
            columns=config.tile_columns,
            tokens=config.tokens,
            hidden=config.hidden,
            ffn=config.ffn,
            labels=config.labels,
        )


class System(wiring.Component):
    """The gateware between the pins of the board.

    At power-up the image in the flash is copied into the SDRAM and checked; then requests are
    answered as `boards.protocol` says. One part uses the SDRAM at a time: the flash's loader,
    WRITE, the check of an image, or the accelerator.

    Parameters
    ----------
    choices
    delay
        Of `Sdram`.
    accelerator
        What makes it; for tests that want another.

    Members
    -------
    sdram : Out, SdramPins
    flash : Out, SpiPins
    rx : In, tx : Out
        The serial line.
    ready, in_use, running : Out
        For lamps: the memory is initialised, there is an image to use, an inference is under way.
    """

    def __init__(
        self,
        choices: Choices,
        delay: int = 0,
        accelerator: Callable[[Config, Bus], Any] = AcceleratorDma,
    ) -> None:
        self.choices, self.delay, self.accelerator = choices, delay, accelerator
        super().__init__(
            {
                "sdram": Out(SdramPins()),
                "flash": Out(SpiPins()),
                "rx": In(1, init=1),
                "tx": Out(1, init=1),
                "ready": Out(1),
                "in_use": Out(1),
                "running": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Elaboratable:
        m = Module()
        choices = self.choices
        chip, config, bus = choices.chip, choices.config, Bus()
        m.submodules.sdram = sdram = Sdram(chip, choices.megahertz, LENGTH_BITS, delay=self.delay)
        m.submodules.axi_memory = axi = AxiMemory(bus, chip, LENGTH_BITS)
        m.submodules.accelerator = accelerator = self.accelerator(config, bus)
        wake = round(FLASH_WAKE_NS * choices.megahertz / 1000) + 1
        m.submodules.flash_loader = loader = FlashLoader(
            chip, LENGTH_BITS, FLASH_HALF, wake, IMAGE_IN_FLASH
        )
        m.submodules.image_check = check = ImageCheck(
            chip, LENGTH_BITS, config.lanes, config.tile_columns
        )
        m.submodules.inference = inference = Inference(choices.longest // 4)
        m.submodules.server = server = Server(chip, LENGTH_BITS, choices.info)
        connect(m, sdram.pins, flipped(self.sdram))
        connect(m, loader.pins, flipped(self.flash))
        connect(m, accelerator.m_axi, axi.s_axi)
        connect(m, inference.m_axi, accelerator.s_axi)
        self._line(m, server)

        m.d.comb += [
            server.ready.eq(sdram.ready),
            loader.start.eq(server.load),
            server.loading.eq(loader.busy),
            server.found.eq(loader.found),
            check.start.eq(server.check),
            server.checking.eq(check.busy),
            server.problem.eq(check.problem),
            check.hash_index.eq(server.hash_index),
            server.hash_word.eq(check.hash_word),
            inference.start.eq(server.infer),
            server.inferring.eq(inference.busy),
            inference.tokens.eq(server.tokens),
            inference.place.eq(check.place),
            inference.interrupt.eq(accelerator.interrupt),
            server.error.eq(inference.error),
            server.sequence.eq(inference.sequence),
            server.logits.eq(inference.logits),
            self.ready.eq(sdram.ready),
            self.in_use.eq(server.in_use),
            self.running.eq(inference.busy),
        ]
        connect(m, server.words, inference.i)
        connect(m, inference.o, server.answer)

        # Who uses the memory: no two do at a time.
        with m.If(inference.busy):
            connect(m, axi.request, sdram.request)
            connect(m, sdram.read, axi.read)
        with m.Elif(check.busy):
            connect(m, check.request, sdram.request)
            connect(m, sdram.read, check.read)
        with m.Elif(loader.busy):
            connect(m, loader.request, sdram.request)
            connect(m, loader.write, sdram.write)
        with m.Else():
            connect(m, server.request, sdram.request)
            connect(m, server.write, sdram.write)
        return m

    def _line(self, m: Module, server: Server) -> None:
        """Bytes and frames of the serial line."""
        m.submodules.receiver = receiver = Receiver(self.choices.bit)
        m.submodules.transmitter = transmitter = Transmitter(self.choices.bit)
        m.submodules.frame_receiver = frames = FrameReceiver(self.choices.longest)
        m.submodules.frame_sender = sender = FrameSender()
        connect(m, server.reply, sender.i)
        connect(m, server.reply_payload, sender.payload)
        connect(m, sender.o, transmitter.i)
        connect(m, server.payload, frames.payload)
        m.d.comb += [
            receiver.rx.eq(self.rx),
            self.tx.eq(transmitter.tx),
            frames.valid.eq(receiver.valid),
            frames.data.eq(receiver.data),
            server.held.eq(frames.held),
            server.head.eq(frames.head),
            server.damaged.eq(frames.damaged),
            frames.release.eq(server.release),
        ]

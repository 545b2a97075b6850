"""A machine with DMA: an accelerator on a memory, whose registers a driver reads and writes.

    board = MemoryBoard(library(design_of(config, bus)), bus)
    board.hold({address: image})
    board.write("control", START)

A C driver reaches the latest board of a library by its `bus_read` and `bus_write`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from cli.errors import UserError

from rtl.accelerator_dma import NAME, AcceleratorDma
from rtl.compile.image import Image
from rtl.dma.bus import Bus
from rtl.interface.config import Config
from sim.design import Design, kept
from sim.machine.inference import START
from sim.machine.machine import MOST, SLVERR, Machine

BASE = 0x4000_0000


@cache
def design_of(config: Config, bus: Bus) -> Design:
    """The Verilog of the accelerator with DMA, read back where its sources are unchanged."""
    return kept(NAME, config, str(bus), lambda: AcceleratorDma(config, bus))


class MemoryBoard(Machine):
    """An accelerator with DMA on a memory that holds images.

    Time passes with each access of the registers, and where a method says so. ``program`` is what
    `library` gives for the design and its bus.
    """

    def __init__(self, program: Path, bus: Bus) -> None:
        self.bus = bus
        numbers = map(ctypes.c_uint32, (bus.data_bytes, bus.burst, bus.outstanding))
        self._open(program, ctypes.c_size_t(BASE), *numbers)

    def show(self, offset: int, value: int) -> None:
        """Let a register read as this from now on, as that of another device would."""
        self._call("show", offset, value)

    @property
    def accesses(self) -> tuple[int, int]:
        """How often a register was read, and written."""
        return self._call("reads"), self._call("writes")

    def hold(self, parts: Mapping[int, bytes]) -> None:
        """Fill the memory: bytes by their address, 255 between them, a beat more at the end."""
        end = max(at + len(data) for at, data in parts.items()) + self.bus.data_bytes
        memory = bytearray(b"\xff" * end)
        for at, data in parts.items():
            memory[at : at + len(data)] = data
        self._call("hold", bytes(memory), end)

    def pace(self, latency: int, seed: int = 0, gap: int = 0) -> None:
        """Cycles from an address to its first beat; rests by seed, none with 0; up to `gap` cycles
        before each access of the registers."""
        self._call("pace", latency, seed, gap)

    def bad_beat(self, beat: int, response: int = SLVERR) -> None:
        """Answer the beat asked for as this one, of all, with SLVERR (2) or DECERR (3)."""
        self._call("bad_beat", beat, response)

    def point(self, image: Image, address: int) -> None:
        """Say where an image lies."""
        stream, rows = address + image.stream_offset, address + image.rows_offset
        values = {
            "model_address": stream & 0xFFFFFFFF,
            "model_address_high": stream >> 32,
            "model_bytes": len(image.stream),
            "rows_address": rows & 0xFFFFFFFF,
            "rows_address_high": rows >> 32,
            "row_bytes": image.row_bytes,
        }
        for name, value in values.items():
            if not self.write(name, value):
                raise UserError(f"the write of {name} is refused: an inference is under way")

    def send(self, words: Sequence[int]) -> None:
        """The words of a sequence."""
        for word in words[:-1]:
            self.write("token", int(word))
        self.write("token_last", int(words[-1]))

    def infer(self, words: Sequence[int]) -> tuple[int, list[int]]:
        """An inference: its error code and its logits."""
        self.send(words)
        self.start()
        return self.ended()

    def start(self) -> None:
        """Begin an inference."""
        self.write("control", START)

    def ended(self) -> tuple[int, list[int]]:
        """Error code and logits of the inference under way; TimeoutError without an interrupt."""
        if not self.until_interrupt(MOST):
            raise TimeoutError(f"no interrupt in {MOST} cycles")
        return self.error, self.logits()

    def logits(self) -> list[int]:
        """Those that wait."""
        values = [self.read("logit") for _ in range(self.read("logits_waiting"))]
        return [value - (value >> 31 << 32) for value in values]

    @property
    def error(self) -> int:
        """How the latest inference has ended."""
        return self.read("status") >> 8 & 15

    @property
    def beats(self) -> int:
        """Beats given so far."""
        return self._call("beats")

    @property
    def bursts(self) -> int:
        """Addresses taken so far."""
        return self._call("bursts")

    @property
    def waiting(self) -> int:
        """Beats that were asked for and have not come."""
        return self._call("waiting")

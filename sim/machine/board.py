"""A board in this process: an accelerator with DMA whose registers a driver reads and writes.

    board = MemoryBoard(library(design_of(config, bus), bus), bus)
    board.hold({address: image})
    board.write("control", START)

A C driver reaches the latest board of a library by its `bus_read` and `bus_write`.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from cli.errors import UserError

from rtl.accelerator_dma import NAME, with_dma
from rtl.compile.image import Image
from rtl.control.axi import REGISTERS
from rtl.dma.bus import Bus
from rtl.dma.registers import DMA_REGISTERS
from rtl.dma.share import CORE_ADDRESS_BITS
from rtl.interface.config import Config
from sim.builds import LIBRARY_FLAGS, build_harness
from sim.design import Design, described
from sim.machine.names import HEADER, header

HERE = Path(__file__).parent
BASE = 0x4000_0000
START, ABORT = 1, 2
OKAY, SLVERR = 0, 2
MOST = 20_000_000
"""Cycles that no inference takes."""
REGISTER = {register.name: register.address for register in (*REGISTERS, *DMA_REGISTERS)}
LARGE = ("now", "reads", "writes", "beats", "bursts", "waiting")


@cache
def design_of(config: Config, bus: Bus) -> Design:
    """The Verilog of the accelerator with DMA."""
    return described(with_dma(config, bus), NAME, config)


def library(design: Design, bus: Bus, variant: str = "") -> Path:
    """Build the board of an accelerator as a shared library; cached, never replaced by another."""
    return build_harness(
        design,
        [HERE / "board.cpp"],
        headers={HEADER: header()},
        variant=f"board-{bus.data_bits}{variant}",
        flags=LIBRARY_FLAGS,
    )


class MemoryBoard:
    """An accelerator with DMA on a memory that holds images.

    Time passes with each access of the registers, and where a method says so.

    Parameters
    ----------
    program
        What `library` gives for the design and its bus.
    bus
        What it was made for.
    """

    _offset = 0
    _lines = 1

    def __init__(self, program: Path, bus: Bus) -> None:
        self._lib, self.bus = ctypes.CDLL(str(program)), bus
        self._lib.board_open.restype = ctypes.c_void_p
        for name in LARGE:
            getattr(self._lib, f"board_{name}").restype = ctypes.c_uint64
        for name in ("board_read", "board_write"):
            getattr(self._lib, name).restype = ctypes.c_uint32
        numbers = map(ctypes.c_uint32, (bus.data_bytes, bus.burst, bus.outstanding, bus.cores))
        self._board = ctypes.c_void_p(self._lib.board_open(ctypes.c_size_t(BASE), *numbers))

    def close(self) -> None:
        """Free it; it is not used any more."""
        self._lib.board_close(self._board)

    def _call(self, name: str, *arguments: object) -> int:
        """A function of the library; numbers that are no ctypes are of 64 bits."""
        of = [ctypes.c_uint64(one) if isinstance(one, int) else one for one in arguments]
        return int(getattr(self._lib, f"board_{name}")(self._board, *of) or 0)

    def read(self, register: str | int) -> int:
        """A register, by name or address."""
        address = REGISTER[register] if isinstance(register, str) else register
        return self._call("read", self._offset + address)

    def write(self, register: str | int, value: int, strobe: int = 15) -> bool:
        """Whether the write of a register was accepted."""
        address = REGISTER[register] if isinstance(register, str) else register
        return self._call("write", self._offset + address, value, strobe) == OKAY

    def show(self, offset: int, value: int) -> None:
        """Let a register read as this from now on, as that of another device would."""
        self._call("show", offset, value)

    def reset(self, cycles: int = 1) -> None:
        """Hold `rst`: sources forget what they offered, the memory what it was asked for."""
        self._call("reset", cycles)

    def run(self, cycles: int) -> None:
        """Let time pass."""
        self._call("run", cycles)

    def until_interrupt(self, most: int = MOST) -> bool:
        """Let time pass until the line is raised, `most` cycles at most; whether it is."""
        return bool(self._call("until_interrupt", most, self._lines))

    @property
    def interrupt(self) -> bool:
        """The line."""
        return self.until_interrupt(0)

    @property
    def now(self) -> int:
        """Cycles so far."""
        return self._call("now")

    @property
    def accesses(self) -> tuple[int, int]:
        """How often a register was read, and written."""
        return self._call("reads"), self._call("writes")

    def complaint(self) -> str:
        """The first thing that no driver and no accelerator may do, "" for none; then forgotten."""
        into = ctypes.create_string_buffer(300)
        self._call("complaint", into, len(into))
        return into.value.decode()

    def core(self, number: int) -> MemoryBoard:
        """The same board as seen from one of several cores: its registers and its line."""
        seen = copy.copy(self)
        seen._offset, seen._lines = number << CORE_ADDRESS_BITS, 1 << number
        return seen

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
        self._call("latency", latency)
        self._call("pace", seed, gap)

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
        """The error code and the logits of the inference under way, after its interrupt.

        Raises
        ------
        TimeoutError
            It never comes.
        """
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

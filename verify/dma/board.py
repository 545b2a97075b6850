"""The accelerator with DMA on a board: registers on a bus, a memory that holds an image.

board = Board(design, config, bus)
board.hold({0x1000: image})
board.point(image, 0x1000)
board.infer(tokens)
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from rtl.accelerator_dma import NAME, AcceleratorDma
from rtl.compile.image import Image
from rtl.control.axi import REGISTERS
from rtl.dma.bus import Bus
from rtl.dma.registers import DMA_REGISTERS
from rtl.interface.config import Config
from sim.builds import build_harness
from sim.design import Design, described
from sim.native.library import LIBRARY_FLAGS

HERE = Path(__file__).parent
BASE = 0x4000_0000
START, ABORT = 1, 2
MOST = 20_000_000
"""Cycles that no inference takes."""
REGISTER = {register.name: register.address for register in (*REGISTERS, *DMA_REGISTERS)}


@cache
def design_of(config: Config, bus: Bus) -> Design:
    """The Verilog of the accelerator with DMA."""
    return described(AcceleratorDma(config, bus), NAME, config)


def library(design: Design, bus: Bus, variant: str = "") -> Path:
    """The board as a shared library; cached, never replaced by another."""
    return build_harness(
        design,
        [HERE / "board.cpp"],
        variant=f"board-{bus.data_bits}{variant}",
        flags=LIBRARY_FLAGS,
    )


class Board:
    """A design with its memory.

    Parameters
    ----------
    program
        What `library` gives for it.
    bus
        What it was made for.
    """

    def __init__(self, program: Path, bus: Bus) -> None:
        self.bus = bus
        self._lib = ctypes.CDLL(str(program))
        self._lib.board_open.restype = ctypes.c_void_p
        for name in ("now", "beats", "bursts", "waiting"):
            getattr(self._lib, f"board_{name}").restype = ctypes.c_uint64
        self._lib.board_read.restype = ctypes.c_uint32
        numbers = [ctypes.c_uint32(n) for n in (bus.data_bytes, bus.burst, bus.outstanding)]
        self._board = ctypes.c_void_p(self._lib.board_open(*numbers, ctypes.c_size_t(BASE)))

    def close(self) -> None:
        """Free it; it is not used any more."""
        self._lib.board_close(self._board)

    def read(self, register: str | int) -> int:
        """A register, by name or address."""
        address = REGISTER[register] if isinstance(register, str) else register
        return int(self._lib.board_read(self._board, ctypes.c_uint32(address)))

    def write(self, register: str | int, value: int, strobe: int = 15) -> bool:
        """Whether the write of a register was accepted."""
        address = REGISTER[register] if isinstance(register, str) else register
        numbers = [ctypes.c_uint32(n) for n in (address, value, strobe)]
        return int(self._lib.board_write(self._board, *numbers)) == 0

    def hold(self, parts: Mapping[int, bytes]) -> None:
        """Fill the memory: bytes by their address, 255 between them, a beat more at the end."""
        end = max(at + len(data) for at, data in parts.items()) + self.bus.data_bytes
        memory = bytearray(b"\xff" * end)
        for at, data in parts.items():
            memory[at : at + len(data)] = data
        self._lib.board_memory(self._board, bytes(memory), ctypes.c_size_t(end))

    def pace(self, latency: int, seed: int = 0, gap: int = 0) -> None:
        """Cycles from an address to its first beat; rests by seed, none with 0; cycles before each
        access of the registers."""
        self._lib.board_pace(
            self._board, ctypes.c_uint64(latency), ctypes.c_uint64(seed), ctypes.c_uint32(gap)
        )

    def bad_beat(self, beat: int, response: int = 2) -> None:
        """Answer the beat asked for as this one, of all, with SLVERR (2) or DECERR (3)."""
        self._lib.board_bad_beat(self._board, ctypes.c_uint64(beat), ctypes.c_uint32(response))

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
                raise ValueError(f"the write of {name} is refused: an inference is under way")

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
        """The error code and the logits of the inference under way, after its interrupt."""
        self.until_interrupt()
        return self.error, self.logits()

    def logits(self) -> list[int]:
        """Those that wait."""
        values = [self.read("logit") for _ in range(self.read("logits_waiting"))]
        return [value - (value >> 31 << 32) for value in values]

    @property
    def error(self) -> int:
        """How the latest inference has ended."""
        return self.read("status") >> 8 & 15

    def run(self, cycles: int) -> None:
        """Let time pass."""
        self._lib.board_run(self._board, ctypes.c_uint64(cycles))

    def reset(self, cycles: int = 1) -> None:
        """Hold `rst`; the memory forgets what it was asked for."""
        self._lib.board_reset(self._board, ctypes.c_uint32(cycles))

    def until_interrupt(self, most: int = MOST) -> None:
        """Let time pass until the line is raised.

        Raises
        ------
        TimeoutError
            It is not, in `most` cycles.
        """
        if not self._lib.board_until_interrupt(self._board, ctypes.c_uint64(most)):
            raise TimeoutError(f"no interrupt in {most} cycles")

    @property
    def now(self) -> int:
        """Cycles so far."""
        return int(self._lib.board_now(self._board))

    @property
    def beats(self) -> int:
        """Beats given so far."""
        return int(self._lib.board_beats(self._board))

    @property
    def bursts(self) -> int:
        """Addresses taken so far."""
        return int(self._lib.board_bursts(self._board))

    @property
    def waiting(self) -> int:
        """Beats that were asked for and have not come."""
        return int(self._lib.board_waiting(self._board))

    def complaint(self) -> str:
        """The first thing that nobody may do, "" for none; then forgotten."""
        into = ctypes.create_string_buffer(300)
        self._lib.board_complaint(self._board, into, ctypes.c_size_t(300))
        return into.value.decode()

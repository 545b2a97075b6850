"""A simulated board: registers that a driver reads and writes, streams that it does not see.

    board = Board(design)
    board.offer(run, table)
    board.write(CONTROL, START)

The C driver reaches the same board by `bus_read` and `bus_write` of its library (`driver_library`).
"""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sim.builds import build_harness
from sim.design import Design
from sim.harness.names import HEADER, header
from sim.native.library import LIBRARY_FLAGS
from sim.simulators import SimulatorError
from verify.fuzz.job import Packets, Run

HERE = Path(__file__).parent
DRIVER = HERE.parents[1] / "driver"
BASE = 0x4000_0000
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wconversion", "-Wshadow")
#: The two macros of the driver, on a board.
BUS = """\
#include <stdint.h>
uint32_t bus_read(uintptr_t address);
void bus_write(uintptr_t address, uint32_t value);
#define B2RTL_READ32(address) bus_read(address)
#define B2RTL_WRITE32(address, value) bus_write(address, value)
"""


def library(design: Design, variant: str = "") -> Path:
    """The board of an accelerator as a shared library; cached, never replaced by another."""
    return build_harness(
        design,
        [HERE / "board.cpp"],
        headers={HEADER: header()},
        variant=f"board{variant}",
        flags=LIBRARY_FLAGS,
    )


def driver_library(
    board: Path,
    folder: Path,
    compiler: str = "gcc",
    text: str | None = None,
    further: Sequence[str] = (),
) -> ctypes.CDLL:
    """The C driver on the bus of the latest board of a library, compiled into `folder`.

    text
        In place of the driver's own .c.
    further
        Sources of driver/ beside it.

    Raises
    ------
    SimulatorError
        The compiler refuses it, or says anything of it.
    """
    source = folder / "bert2rtl.c"
    source.write_text((DRIVER / "bert2rtl.c").read_text() if text is None else text)
    (folder / "bus.h").write_text(BUS)
    compiled = folder / "driver.so"
    command = [compiler, *STRICT, "-O1", "-shared", "-fPIC", f"-I{DRIVER}", "-include", "bus.h"]
    command += ["-o", str(compiled), str(source), *(str(DRIVER / name) for name in further)]
    command += [str(board)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:
        raise SimulatorError(f"{compiler} refuses the driver:\n{done.stderr}")
    return ctypes.CDLL(str(compiled))


class Board:
    """The accelerator with its sources, its row memory and the sink of the logits.

    Time passes in an access of the bus and in `run`, never else. Of several boards of one library
    the latest is the one on the bus.

    Parameters
    ----------
    program
        What `library` gives for `design`.
    seed
        Pauses on every stream, and up to `gap` cycles before each access; 0: none.
    """

    def __init__(self, program: Path, design: Design, seed: int = 0, gap: int = 0) -> None:
        self.lanes: int = json.loads(design.sheet)["configuration"]["lanes"]
        self._lib = ctypes.CDLL(str(program))
        self._lib.board_open.restype = ctypes.c_void_p
        for name in ("now", "model_left", "tokens_left", "rows_left", "reads", "writes"):
            getattr(self._lib, f"board_{name}").restype = ctypes.c_uint64
        self._lib.bus_read.restype = ctypes.c_uint32
        self._board = ctypes.c_void_p(
            self._lib.board_open(ctypes.c_uint32(self.lanes), ctypes.c_size_t(BASE))
        )
        self._lib.board_pace(self._board, ctypes.c_uint32(seed), ctypes.c_uint32(gap))

    def close(self) -> None:
        """Free it; it is not used any more."""
        self._lib.board_close(self._board)

    def read(self, offset: int) -> int:
        """The register at `offset`, as the CPU of the board reads it."""
        return int(self._lib.bus_read(ctypes.c_size_t(BASE + offset)))

    def write(self, offset: int, value: int) -> None:
        """Write it; what the accelerator refuses is a complaint."""
        self._lib.bus_write(ctypes.c_size_t(BASE + offset), ctypes.c_uint32(value))

    def reset(self, cycles: int = 1) -> None:
        """Hold `rst`; whatever the sources offered is forgotten."""
        self._lib.board_reset(self._board, ctypes.c_uint32(cycles))

    def offer(self, run: Run, table: np.ndarray) -> None:
        """What the sources offer from now on, and the rows that the memory answers with."""
        self._words("model", run.model)
        self._words("tokens", run.tokens)
        rows, width = table.shape
        numbers = [ctypes.c_uint32(n) for n in (width, run.row_words, run.row_latency)]
        self._lib.board_rows(self._board, table.tobytes(), ctypes.c_size_t(rows), *numbers)

    def _words(self, name: str, packets: Packets) -> None:
        words = ctypes.c_size_t(len(packets.last))
        getattr(self._lib, f"board_{name}")(self._board, packets.data, packets.last, words)

    def send(self, stream: str, data: bytes, row_words: int = 0) -> None:
        """One packet on `model` or `tokens`; or `push_rows`: rows that come by themselves.

        row_words
            Of the rows: each ends with `last`.
        """
        packets = Packets.whole(data, 4 if stream == "tokens" else self.lanes)
        if row_words:
            last = (bytes(row_words - 1) + b"\1") * (len(packets.last) // row_words)
            packets = Packets(data, last)
        self._words(stream, packets)

    def show(self, offset: int, value: int) -> None:
        """Let a register read as this from now on, as that of another device would."""
        self._lib.board_show(self._board, ctypes.c_uint32(offset), ctypes.c_uint32(value))

    def silence_rows(self, cycles: int) -> None:
        """The row memory says nothing for so long."""
        self._lib.board_silence_rows(self._board, ctypes.c_uint64(cycles))

    def take_logits(self, take: bool) -> None:
        """Whether the sink takes logits."""
        self._lib.board_take_logits(self._board, ctypes.c_int(take))

    def take_packet(self) -> None:
        """The sink takes the logits of one packet, and none after it."""
        self._lib.board_take_packet(self._board)

    def run(self, cycles: int) -> None:
        """Let time pass."""
        self._lib.board_run(self._board, ctypes.c_uint64(cycles))

    def until_interrupt(self, most: int) -> bool:
        """Let time pass until the line is raised, `most` cycles at most; whether it is."""
        self._lib.board_until_interrupt(self._board, ctypes.c_uint64(most))
        return self.interrupt

    @property
    def interrupt(self) -> bool:
        """The line."""
        return bool(self._lib.board_interrupt(self._board))

    @property
    def cycle(self) -> int:
        """Cycles so far."""
        return int(self._lib.board_now(self._board))

    @property
    def accesses(self) -> tuple[int, int]:
        """How often a register was read, and written."""
        reads, writes = self._lib.board_reads(self._board), self._lib.board_writes(self._board)
        return int(reads), int(writes)

    @property
    def left(self) -> tuple[int, int, int]:
        """Words of the command stream and tokens that were not taken, and rows still to come."""
        model, tokens, rows = (
            int(getattr(self._lib, f"board_{name}_left")(self._board))
            for name in ("model", "tokens", "rows")
        )
        return model, tokens, rows

    def logits(self) -> tuple[list[int], int]:
        """Those that came since the last call, and how many of them with `last`."""
        room, lasts = 4096, ctypes.c_size_t()
        into = (ctypes.c_int32 * room)()
        size = ctypes.c_size_t(room)
        count = self._lib.board_logits(self._board, into, size, ctypes.byref(lasts))
        return list(into[:count]), lasts.value

    def complaint(self) -> str:
        """The first thing that no driver and no accelerator may do, "" for none; then forgotten."""
        into = ctypes.create_string_buffer(300)
        self._lib.board_complaint(self._board, into, ctypes.c_size_t(300))
        return into.value.decode()

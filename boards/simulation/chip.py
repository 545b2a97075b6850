"""The model of the SDRAM chip (`sdram.h`) for Python."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from pathlib import Path
from typing import NamedTuple

from cli.files import locked, replacing

from boards.gateware.chip import Chip
from sim.builds import BUILDS
from sim.simulators import SimulatorError

HERE = Path(__file__).parent
FLAGS = ("-std=gnu++17", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror")
TIMES = ("rc", "ras", "ras_max", "rcd", "rp", "rrd", "rfc", "wr", "mrd", "power_up", "refresh")


class Violation(NamedTuple):
    """A rule that was broken, by its name in the data sheet, and the clock edge."""

    rule: str
    edge: int


def library(compiler: str = "g++") -> Path:
    """The compiled model; cached by its sources.

    Raises
    ------
    SimulatorError
        The compiler is missing, or refuses it.
    """
    sources = [HERE / "chip.cpp", HERE / "sdram.h"]
    texts = "\0".join([compiler, *FLAGS, *(path.read_text() for path in sources)])
    key = hashlib.sha256(texts.encode()).hexdigest()
    program = BUILDS / "programs" / key[:32] / "chip.so"
    with locked(BUILDS / ".chip.lock"):
        if not program.exists():
            with replacing(program) as temporary:
                command = [compiler, *FLAGS, "-o", str(temporary), str(sources[0])]
                try:
                    done = subprocess.run(command, capture_output=True, text=True)
                except FileNotFoundError:
                    raise SimulatorError(f"{compiler} is missing: run `make setup` first") from None
                if done.returncode != 0:
                    raise SimulatorError(f"{compiler} refuses {sources[0]}:\n{done.stderr}")
    return program


def rules(chip: Chip, megahertz: float) -> list[int]:
    """What `sdram::Rules` holds, in its order."""
    period = round(1_000_000 / megahertz)
    times = [round(1000 * getattr(chip, name)) for name in TIMES]
    return [period, *times, chip.row_bits, chip.column_bits, chip.cas]


class ChipOf:
    """What a chip in a library has noted.

    Parameters
    ----------
    lib
        A library with the functions of `chip.cpp`.
    chip
        Where the chip lies.
    """

    def __init__(self, lib: ctypes.CDLL, chip: int) -> None:
        lib.chip_rule.restype = ctypes.c_char_p
        for name in ("refreshes", "violations", "edge"):
            getattr(lib, f"chip_{name}").restype = ctypes.c_uint64
        lib.chip_clock.restype = lib.chip_peek.restype = ctypes.c_uint32
        lib.chip_clock.argtypes = [ctypes.c_void_p, *[ctypes.c_uint32] * 7]
        self._lib, self._chip = lib, ctypes.c_void_p(chip)

    def peek(self, address: int) -> int:
        """The word at the address of a controller."""
        return int(self._lib.chip_peek(self._chip, ctypes.c_uint32(address)))

    @property
    def refreshes(self) -> int:
        """REFRESH commands so far."""
        return int(self._lib.chip_refreshes(self._chip))

    @property
    def violations(self) -> list[Violation]:
        """What was broken so far, in the order of time."""
        count = self._lib.chip_violations(self._chip)
        lib = self._lib
        return [
            Violation(
                lib.chip_rule(self._chip, ctypes.c_uint64(i)).decode(),
                int(lib.chip_edge(self._chip, ctypes.c_uint64(i))),
            )
            for i in range(count)
        ]


class ChipModel(ChipOf):
    """A chip of its own at a clock; see `sdram.h`."""

    def __init__(self, chip: Chip, megahertz: float) -> None:
        lib = ctypes.CDLL(str(library()))
        lib.chip_open.restype = ctypes.c_void_p
        values = rules(chip, megahertz)
        super().__init__(lib, lib.chip_open((ctypes.c_uint64 * len(values))(*values)))

    def close(self) -> None:
        """Free it; it is not used any more."""
        self._lib.chip_close(self._chip)

    def clock(
        self,
        command: int,
        bank: int = 0,
        address: int = 0,
        *,
        enable: int = 1,
        mask: int = 0,
        o: int | None = None,
    ) -> int | None:
        """A rising edge; what the chip drives until the next, None where it does not.

        command
            ras, cas and we from the highest bit down, 1 where active.
        o
            What the controller drives, None where it does not.
        """
        value = self._lib.chip_clock(
            self._chip, enable, command, bank, address, mask, o or 0, o is not None
        )
        return value & 0xFFFF if value >> 16 else None

"""The C driver of driver/ on the bus of a simulated board."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from cli.machine import ROOT

from sim.simulators import SimulatorError

DRIVER = ROOT / "driver"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wconversion", "-Wshadow")
#: The two macros of the driver, on a board.
BUS = """\
#include <stdint.h>
uint32_t bus_read(uintptr_t address);
void bus_write(uintptr_t address, uint32_t value);
#define B2RTL_READ32(address) bus_read(address)
#define B2RTL_WRITE32(address, value) bus_write(address, value)
"""


def driver_library(board: Path, folder: Path, compiler: str = "gcc") -> ctypes.CDLL:
    """Compile the C driver into `folder`, on the bus of the latest board of a library.

    Raises
    ------
    SimulatorError
        The compiler refuses it, or says anything of it.
    """
    (folder / "bus.h").write_text(BUS)
    compiled = folder / "driver.so"
    command = [compiler, *STRICT, "-O1", "-shared", "-fPIC", f"-I{DRIVER}", "-include", "bus.h"]
    command += ["-o", str(compiled), str(DRIVER / "bert2rtl.c"), str(board)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:
        raise SimulatorError(f"{compiler} refuses the driver:\n{done.stderr}")
    return ctypes.CDLL(str(compiled))

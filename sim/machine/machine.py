"""The verilated accelerator in this process, at the full speed of Verilator.

    with Machine(accelerator(config), config) as machine:
        result = machine.run(Loaded(program, table).inference(ids))

A signal that kills the process names the inference on the standard error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Self

import numpy as np

from rtl.interface.command import MAGIC, VERSION
from rtl.interface.config import Config
from rtl.interface.registers import DMA_REGISTERS, REGISTERS
from sim.builds import FASTER, LIBRARY_FLAGS, OPTIMISATION, build_harness
from sim.design import Design, generated
from sim.machine.inference import Inference, packed
from sim.machine.names import HEADER, header
from sim.machine.result import Record, Result, result_of
from sim.simulators import SimulatorError

SOURCE = Path(__file__).parent / "machine.cpp"
FLAGS = (*LIBRARY_FLAGS, "-CFLAGS", "-DVL_USER_FATAL")
#: Lanes from which a build that takes twice as long is worth a fifth more cycles a second.
MANY_LANES = 16
OKAY, SLVERR = 0, 2
MOST = 20_000_000
"""Cycles after which nobody waits for an interrupt any more, unless another number is given."""
REGISTER = {register.name: register.address for register in (*REGISTERS, *DMA_REGISTERS)}
STREAM = "s_axis_model_tdata"
INTERRUPTED = "interrupted"


def library(design: Design, variant: str = "", flags: Sequence[str] = ()) -> Path:
    """The library of an accelerator, as `sim.builds.build_harness` makes it.

    variant: a name to keep its build apart.
    """
    streams = STREAM in design.ports
    many = streams and design.ports[STREAM].width // 8 >= MANY_LANES
    return build_harness(
        design,
        SOURCE,
        headers={HEADER: header(dma=not streams)},
        variant=f"machine{variant}",
        flags=(*FLAGS, *flags),
        optimisation=FASTER if many else OPTIMISATION,
    )


def accelerator(config: Config) -> Path:
    """The library of the accelerator of a configuration."""
    return library(generated("accelerator", config))


@cache
def _loaded(path: Path) -> ctypes.CDLL:
    found = ctypes.CDLL(str(path))
    found.machine_open.restype = ctypes.c_void_p
    found.machine_failure.restype = ctypes.c_char_p
    return found


def _address(register: str | int) -> int:
    return REGISTER[register] if isinstance(register, str) else register


class Machine:
    """An accelerator with streams, after power-up; ``program`` is what `library` gives for it.

    mutant
        Which one of a design that holds several; 0: the sound one.
    odd
        The client of the registers is odd (registers.h) and aborts what hangs.
    """

    def __init__(
        self, program: Path, config: Config, *, mutant: int = 0, odd: bool = False
    ) -> None:
        self.config = config
        fixed = np.array(list(fixed_registers(config).items()), np.uint32)
        numbers = map(ctypes.c_uint32, (config.lanes, mutant, odd))
        size = ctypes.c_size_t(len(fixed))
        self._open(program, *numbers, ctypes.c_void_p(fixed.ctypes.data), size)

    def _open(self, path: Path, *arguments: object) -> None:
        self._lib = _loaded(path)
        self._machine = ctypes.c_void_p(self._lib.machine_open(*arguments))
        self._check("after power-up")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free it; it is not used any more."""
        self._lib.machine_close(self._machine)

    def _check(self, where: str) -> None:
        said = self._lib.machine_failure().decode()
        if said == INTERRUPTED:
            raise KeyboardInterrupt
        if said:
            raise SimulatorError(f"{where}: the simulation failed: {said}")

    def _call(self, name: str, *arguments: object) -> int:
        """A function of the library; numbers that are no ctypes are of 64 bits."""
        of = [ctypes.c_uint64(one) if isinstance(one, int) else one for one in arguments]
        function = getattr(self._lib, f"machine_{name}")
        function.restype = ctypes.c_uint64
        found: int = function(self._machine, *of)
        self._check(name)
        return found

    def read(self, register: str | int) -> int:
        """A register, by name or address."""
        return self._call("read", _address(register))

    def write(self, register: str | int, value: int, strobe: int = 15) -> bool:
        """Whether the write of a register was accepted."""
        return self._call("write", _address(register), value, strobe) == OKAY

    def step(self, cycles: int) -> None:
        """Let time pass."""
        self._call("step", cycles)

    def until_interrupt(self, most: int = MOST) -> bool:
        """Let time pass until the line is raised, `most` cycles at most; whether it is."""
        return bool(self._call("until_interrupt", most))

    @property
    def interrupt(self) -> bool:
        """The line."""
        return self.until_interrupt(0)

    @property
    def now(self) -> int:
        """Cycles so far."""
        return self._call("now")

    def reset(self, cycles: int = 1) -> None:
        """Hold `rst`: sources forget what they offered, a memory what it was asked for."""
        self._call("reset", cycles)

    def complaint(self) -> str:
        """The first thing that no driver and no accelerator may do, "" for none; then forgotten."""
        into = ctypes.create_string_buffer(300)
        self._call("complaint", into, len(into))
        return into.value.decode()

    def restart(self, cycles: int, seed: int) -> None:
        """Begin again with a reset of so many cycles; an odd client draws its noise from `seed`."""
        self._call("restart", cycles, seed)

    def run(self, inference: Inference) -> Result:
        """Play an inference; SimulatorError where Verilator found something fatal in the design."""
        self._held = inference  # its rows are there until the next one begins
        record = Record()
        self._lib.machine_play(self._machine, ctypes.byref(packed(inference)), ctypes.byref(record))
        self._check(inference.name)
        return result_of(record, inference, self.config)

    def cover(self, path: Path) -> None:
        """Write what was covered, of a design that was built with coverage."""
        self._call("cover", str(path).encode())


def fixed_registers(config: Config) -> dict[int, int]:
    """What the registers of docs/architecture.md that never change read, by address."""
    found = {0x00: MAGIC, 0x04: VERSION, 0x08: config.lanes, 0x0C: config.tokens}
    found |= {0x10: config.hidden, 0x14: config.ffn, 0x18: config.labels, 0x1C: 0}
    return found | {0x4C: config.tile_columns}

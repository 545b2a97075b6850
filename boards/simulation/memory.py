"""`python -m boards.simulation.memory`: what the SDRAM controller gets from its chip.

The controller's Verilog runs against the model of the chip, from power-up on: it writes 8 MiB in
the order of the rows, reads them, and then reads rows of an embedding table from anywhere. Every
word is compared; the time is longer than that in which each row has to be refreshed.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.command import Different, run_command
from cli.files import write_json
from cli.options import Parser, add_json, add_seed, whole

import numpy as np

from boards.gateware.chip import Chip
from boards.gateware.sdram import Sdram
from boards.simulation.chip import ChipOf, Violation, rules
from rtl.generate.verilog import convert
from sim.builds import LIBRARY_FLAGS, build_harness
from sim.design import Design

HERE = Path(__file__).parent
MEGAHERTZ = 80
LEAST = 0.85
"""Of 2 bytes a cycle, in the order of the rows."""
EXAMPLES = """\
examples:
  python -m boards.simulation.memory
  python -m boards.simulation.memory --megahertz 100 --json build/memory.json
"""

LENGTH_BITS = 16
WORDS = 1 << 22


def library(chip: Chip, megahertz: float) -> Path:
    """The controller for that chip and clock, with the model, as a shared library; cached."""
    unit = Sdram(chip, megahertz, LENGTH_BITS)
    design = Design(
        name="sdram",
        configuration=f"{megahertz:g}",
        verilog=convert(unit, "sdram"),
        ports={},
        sheet="{}\n",
    )
    return build_harness(design, [HERE / "memory.cpp"], flags=LIBRARY_FLAGS)


class Memory:
    """The controller with a chip after power-up; `chip` may be another than it was made for."""

    def __init__(self, program: Path, chip: Chip, megahertz: float) -> None:
        self._lib = lib = ctypes.CDLL(str(program))
        lib.memory_open.restype = lib.memory_chip.restype = ctypes.c_void_p
        for name in ("start", "play"):
            getattr(lib, f"memory_{name}").restype = ctypes.c_uint64
        values = rules(chip, megahertz)
        self._memory = ctypes.c_void_p(lib.memory_open((ctypes.c_uint64 * len(values))(*values)))
        self._chip = ChipOf(lib, lib.memory_chip(self._memory))
        self.bits = chip.address_bits
        self.power_up = int(lib.memory_start(self._memory))

    def close(self) -> None:
        """Free it; it is not used any more."""
        self._lib.memory_close(self._memory)

    def play(
        self, requests: Sequence[tuple[bool, int, int]], give: np.ndarray
    ) -> tuple[int, np.ndarray]:
        """Play (write, address, words) with the words to write; cycles, and the words read.

        Raises
        ------
        Different
            Nothing moved for 10,000 cycles.
        """
        words = sum(n for write, _, n in requests if not write)
        asked = np.array([w | a << 1 | (n - 1) << 1 + self.bits for w, a, n in requests], np.uint64)
        give, take = np.ascontiguousarray(give, np.uint16), np.zeros(words, np.uint16)
        cycles = self._lib.memory_play(
            self._memory,
            *(ctypes.c_uint64(len(asked)), asked.ctypes.data_as(ctypes.c_void_p)),
            *(ctypes.c_uint64(len(give)), give.ctypes.data_as(ctypes.c_void_p)),
            *(ctypes.c_uint64(words), take.ctypes.data_as(ctypes.c_void_p)),
        )
        if cycles == 0:
            raise Different("the SDRAM controller stands still: 10,000 cycles without a word")
        return int(cycles), take

    def idle(self, cycles: int) -> None:
        """Let time pass."""
        self._lib.memory_idle(self._memory, ctypes.c_uint64(cycles))

    @property
    def violations(self) -> list[Violation]:
        return self._chip.violations

    @property
    def refreshes(self) -> int:
        return self._chip.refreshes


@dataclass(frozen=True)
class Line:
    """One pattern of requests and what it took."""

    pattern: str
    words: int
    cycles: int

    @property
    def share(self) -> float:
        """Of 2 bytes a cycle."""
        return self.words / self.cycles


def measured(memory: Memory, chip: Chip, row_bytes: int, seed: int) -> list[Line]:
    """The patterns in their order; every word that is read is compared.

    Raises
    ------
    Different
        A word is wrong, or the chip complains.
    """
    rng = random.Random(seed)
    size, longest = min(WORDS, 1 << chip.address_bits), 1 << LENGTH_BITS
    data = np.random.default_rng(seed).integers(0, 1 << 16, size, np.uint16)
    every = range(0, size, longest)
    lines = []
    cycles, _ = memory.play([(True, a, longest) for a in every], data)
    lines.append(Line("writing, in order", size, cycles))
    cycles, read = memory.play([(False, a, longest) for a in every], data[:0])
    lines.append(Line("reading, in order", size, cycles))
    _compare(read, data)
    row = row_bytes // 2
    places = [rng.randrange(size // row) * row for _ in range(20_000)]
    cycles, read = memory.play([(False, a, row) for a in places], data[:0])
    lines.append(Line(f"reading, rows of {row_bytes} bytes anywhere", row * len(places), cycles))
    _compare(read, np.concatenate([data[a : a + row] for a in places]))
    if memory.violations:
        first = memory.violations[0]
        raise Different(f"the chip complains of {first.rule} at clock edge {first.edge}")
    return lines


def _compare(read: np.ndarray, right: np.ndarray) -> None:
    wrong = np.flatnonzero(read != right)
    if len(wrong):
        i = int(wrong[0])
        raise Different(f"word {i} that was read is {read[i]:#06x}, not {right[i]:#06x}")


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _run(_parser().parse_args(arguments)))


def _parser() -> Parser:
    result = Parser(
        "boards.simulation.memory",
        "Bytes a cycle of the SDRAM controller on the chip's model.",
        EXAMPLES,
    )
    result.add_argument(
        "--megahertz",
        type=whole(1),
        default=MEGAHERTZ,
        metavar="F",
        help=f"clock of chip and controller (default: {MEGAHERTZ})",
    )
    result.add_argument(
        "--row-bytes",
        type=whole(2, 1 << 16),
        default=128,
        metavar="B",
        help="bytes of an embedding row, even (default: 128)",
    )
    add_seed(result, "data and rows")
    add_json(result)
    return result


def _run(options: argparse.Namespace) -> int:
    if options.row_bytes % 2:
        raise ValueError(f"--row-bytes is {options.row_bytes}: it must be even")
    chip = Chip()
    memory = Memory(library(chip, options.megahertz), chip, options.megahertz)
    lines = measured(memory, chip, options.row_bytes, options.seed)
    cycles = memory.power_up + sum(line.cycles for line in lines)
    figures: dict[str, Any] = {
        "megahertz": options.megahertz,
        "power_up_cycles": memory.power_up,
        "patterns": {
            line.pattern: {"words": line.words, "cycles": line.cycles, "share": line.share}
            for line in lines
        },
        "refreshes": memory.refreshes,
        "milliseconds": cycles / options.megahertz / 1000,
        "violations": len(memory.violations),
    }
    memory.close()
    for line in lines:
        print(
            f"{line.pattern:40} {line.words:>10,} words {line.cycles:>11,} cycles  "
            f"{2 * line.share:.3f} bytes a cycle  {line.share:7.2%} of 2"
        )
    print(
        f"{figures['milliseconds']:.1f} ms at {options.megahertz} MHz, {figures['refreshes']:,} "
        f"refreshes, initialised after {memory.power_up:,} cycles, no complaint of the chip"
    )
    if options.json:
        write_json(options.json, figures)
    share = lines[1].share
    if share < LEAST:
        raise Different(f"reading in order gets {share:.2%} of 2 bytes a cycle, not {LEAST:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

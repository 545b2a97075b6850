"""A unit as a shared library, and `tb.ports` on it: benches at the speed of Verilator.

    ports = NativePorts(library(design), design)
    finish(check_softmax(ports, tiles, mask))

The bench of a unit plays on it as it does in cocotb, in the process that calls it.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from cli.errors import UserError

import numpy as np

from sim.builds import LIBRARY_FLAGS, build_harness
from sim.design import Design
from tb.packing import pack, unpack

SOURCE = Path(__file__).with_name("unit.cpp")

CTYPES = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}
"""By the bytes of a port."""

T = TypeVar("T")


def _header(names: Sequence[str]) -> str:
    """The ports in their order."""
    cases = " ".join(f"case {i}: return &t.{name};" for i, name in enumerate(names))
    sizes = ", ".join(f"sizeof(Vtop::{name})" for name in names)
    return (
        "// Made by sim/machine/unit.py from the ports of the design.\n"
        f"#define PORT_CASES {cases}\n"
        f"static const int PORT_SIZES[] = {{{sizes}}};\n"
    )


def library(design: Design, variant: str = "", flags: Sequence[str] = ()) -> Path:
    """The built library of a design, as `sim.builds.build_harness` makes it."""
    headers, flags = {"ports.h": _header(list(design.ports))}, (*LIBRARY_FLAGS, *flags)
    return build_harness(design, SOURCE, headers=headers, variant=f"native{variant}", flags=flags)


def finish(exercise: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing but ports of this module."""
    try:
        exercise.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    exercise.close()
    raise TypeError("this bench waits for a simulator: it takes more than tb.ports")


class _Interrupted(Exception):
    """An exercise ends here."""


class NativePorts:
    """`tb.ports.UnitPorts` and `Streaming` of a design in a library.

    Each is a unit of its own, in the state after power-up; `cycles` has it seen so far.

    `program` is what `library` gives for `design`; `inputs` are values of ports beyond those of the
    sheet, such as the selector of a mutant.
    """

    def __init__(self, program: Path, design: Design, **inputs: int) -> None:
        self.sheet: dict[str, Any] = json.loads(design.sheet)
        self.config: dict[str, Any] = self.sheet["configuration"]
        self.latency: int = self.sheet.get("latency", 0)
        self._facts = {n: f for n, f in self.sheet["ports"].items() if n not in ("clk", "rst")}
        self._inputs = [n for n, f in self._facts.items() if f["direction"] == "input"]
        lib = ctypes.CDLL(str(program))
        lib.unit_open.restype = lib.unit_port.restype = ctypes.c_void_p
        self._lib, self._unit = lib, ctypes.c_void_p(lib.unit_open())
        self._number = {name: number for number, name in enumerate(design.ports)}
        self._size = {name: int(lib.unit_size(i)) for name, i in self._number.items()}
        places = {name: lib.unit_port(self._unit, i) for name, i in self._number.items()}
        self._memory = {
            name: (ctypes.c_char * self._size[name]).from_address(at) for name, at in places.items()
        }
        #: Numbers of at most 64 bits as integers, their widths and whether they are signed: fast.
        self._numbers = {
            name: (CTYPES[self._size[name]].from_address(places[name]), *self._element(name)[1:])
            for name, facts in self._facts.items()
            if facts["width"] and "length" not in facts and self._size[name] in CTYPES
        }
        self.cycles = 0
        self._left = -1
        for name, value in inputs.items():
            self._put(name, value)
        lib.unit_settle(self._unit)

    def close(self) -> None:
        """Free the unit; it is not used any more."""
        self._lib.unit_close(self._unit)

    def _put(self, name: str, word: int) -> None:
        self._memory[name].raw = word.to_bytes(self._size[name], "little")

    def set(self, name: str, value: int | Sequence[int]) -> None:
        if name in self._numbers:
            number, width, _ = self._numbers[name]
            assert isinstance(value, int), name
            if not -(1 << width - 1) <= value < 1 << width:
                raise UserError(f"{name} is {value}: it does not fit {width} bits")
            number.value = value & (1 << width) - 1
            return
        length, width, _ = self._element(name)
        values = value if isinstance(value, Sequence) else [value]
        assert len(values) == length, name
        if width:
            self._put(name, pack(values, width))

    def get(self, name: str) -> Any:
        if name in self._numbers:
            number, width, signed = self._numbers[name]
            value = number.value
            return value - (1 << width) if signed and value >> width - 1 else value
        if not self._facts[name]["width"]:
            return 0
        length, width, signed = self._element(name)
        values = unpack(int.from_bytes(self._memory[name].raw, "little"), width, length, signed)
        return values if "length" in self._facts[name] else values[0]

    async def settle(self) -> None:
        self._lib.unit_settle(self._unit)

    async def tick(self) -> None:
        self._lib.unit_tick(self._unit)
        self.cycles += 1
        self._left -= 1
        if self._left == 0:
            raise _Interrupted

    async def reset(self) -> None:
        """Hold the reset for a cycle."""
        self._put("rst", 1)
        await self.tick()
        self._put("rst", 0)

    async def interrupt(self, exercise: Coroutine[Any, Any, Any], cycles: int) -> None:
        """Run `exercise` for some cycles, abandon it, set all inputs to zero and reset."""
        self._left = cycles
        with suppress(_Interrupted):
            await exercise
        self._left = -1
        for name in self._inputs:
            if self._facts[name]["width"]:
                self._put(name, 0)
        await self.reset()

    def stream(
        self, inputs: dict[str, np.ndarray], outputs: tuple[str, ...]
    ) -> dict[str, np.ndarray]:
        """As `tb.pipelined.stream`, all cycles in one call."""
        cycles = len(next(iter(inputs.values())))
        given = {name: self._packed(name, words) for name, words in inputs.items()}
        taken = {name: np.zeros((cycles, self._size[name]), np.uint8) for name in outputs}

        def arguments(words: dict[str, np.ndarray]) -> list[Any]:
            count = len(words)
            numbers = (ctypes.c_int * count)(*(self._number[name] for name in words))
            places = (ctypes.c_void_p * count)(*(w.ctypes.data for w in words.values()))
            return [count, numbers, places]

        lengths = ctypes.c_uint64(cycles), ctypes.c_uint64(self.latency)
        self.cycles += cycles
        self._lib.unit_stream(self._unit, *arguments(given), *arguments(taken), *lengths)
        return {name: self._unpacked(name, words) for name, words in taken.items()}

    def _element(self, name: str) -> tuple[int, int, bool]:
        """Length, width and signedness of a port's elements."""
        facts = self._facts[name]
        element = facts.get("element", facts)
        return facts.get("length", 1), element["width"], element.get("signed", False)

    def _packed(self, name: str, words: np.ndarray) -> np.ndarray:
        """The bytes of integers [cycles] or [cycles, lanes], [cycles, size of the port]."""
        length, width, _ = self._element(name)
        values = np.asarray(words, np.int64).reshape(len(words), length)
        if values.size and not -(1 << width - 1) <= values.min() <= values.max() < 1 << width:
            raise UserError(f"{name}: {values.min()}..{values.max()} does not fit {width} bits")
        bits = (values[..., None] >> np.arange(width) & 1).astype(np.uint8)
        packed = np.packbits(bits.reshape(len(words), -1), axis=1, bitorder="little")
        room = self._size[name] - packed.shape[1]
        return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, room))))

    def _unpacked(self, name: str, packed: np.ndarray) -> np.ndarray:
        """The integers in the bytes of a port."""
        length, width, signed = self._element(name)
        bits = np.unpackbits(packed, axis=1, bitorder="little", count=length * width)
        values = bits.reshape(len(packed), length, width) @ (1 << np.arange(width, dtype=np.int64))
        if signed:
            values -= values >> width - 1 << width
        return values if "length" in self._facts[name] else values[:, 0]

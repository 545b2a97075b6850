"""Names that the C++ machine shares with the gateware and the benches, as a header made of them."""

from __future__ import annotations

from collections.abc import Iterator

from rtl.interface.registers import REGISTERS
from tb.trace import CAUSES, TRACE_PORTS

HEADER = "names.h"
#: Registers that count cycles, in the order of a record.
COUNTERS = ("cycles", "active", *(f"stall_{cause}" for cause in CAUSES))


def _lines(dma: bool) -> Iterator[str]:
    yield "// Made by sim/machine/names.py from rtl.interface.registers and tb.trace."
    yield "#pragma once"
    yield "#include <cstdint>"
    yield f"#define DMA {dma:d}"
    yield "namespace registers {"
    registers = [f"    {register.name.upper()} = {register.address:#x}" for register in REGISTERS]
    yield "constexpr uint32_t\n" + ",\n".join(registers) + ";\n}"
    names = ("none", *CAUSES)
    yield f"constexpr int CAUSES = {len(names)};"
    shown = ", ".join(f'"{name}"' for name in names)
    yield f"constexpr const char* CAUSE_NAMES[CAUSES] = {{{shown}}};"
    shown = ", ".join(f"registers::{name.upper()}" for name in COUNTERS)
    yield f"constexpr uint32_t COUNTERS[1 + CAUSES] = {{{shown}}};"
    ports = [name for _, _, written in TRACE_PORTS for name in written]
    yield f"constexpr int PORTS = {len(ports)};"
    # One line of C++ a port: RECORD(index, address, signal).
    yield "#define RECORD_ALL(t, RECORD) \\"
    for enable, port, written in TRACE_PORTS:
        address = "0" if port is None else f"t.{port}"
        calls = (f"RECORD({ports.index(name)}, {address}, t.trace_{name});" for name in written)
        yield f"    if (t.{enable}) {{ {' '.join(calls)} }} \\"
    yield "    static_assert(true)"


def header(dma: bool) -> str:
    """Register addresses, causes of a stall and trace ports, each in its one order.

    dma: whether a memory is around the accelerator, or streams.
    """
    return "\n".join(_lines(dma)) + "\n"

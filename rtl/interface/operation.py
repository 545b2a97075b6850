"""Descriptors as the hardware sees them."""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Value, unsigned
from amaranth.lib import data

from rtl.interface.command import FIELD_BYTES
from rtl.interface.isa import BITS, FIELDS, Flag, Opcode
from rtl.interface.tile import NORM_INDEX_BITS

FLAG_BITS = data.FlexibleLayout(
    8, {str(flag.name).lower(): data.Field(1, BITS[flag]) for flag in Flag}
)
"""Byte 1 of a descriptor. Flags of different opcodes share bits."""

OPERATION = data.StructLayout(
    {
        "opcode": unsigned(8),
        "flags": FLAG_BITS,
        "fields": unsigned(8 * FIELD_BYTES),
        "norm_index": unsigned(NORM_INDEX_BITS),
        "number": unsigned(8),
    }
)
"""A checked descriptor on its way to the sequencer.

`norm_index` counts the NORMs before it in the stream, `number` the descriptors (both modulo).
"""

NORM = data.StructLayout(
    {
        "channels": unsigned(16),
        "shift": unsigned(8),
        "epsilon": unsigned(56),
        "flags": FLAG_BITS,
    }
)
"""A NORM whose parameters are loaded."""

EMBED = data.StructLayout({field.name: unsigned(8 * field.bytes) for field in FIELDS[Opcode.EMBED]})
"""The fields of an EMBED."""


class Error(IntEnum):
    """Why an inference ended; `rtl.interface.registers.ERRORS` says what happened."""

    NONE = 0
    FORMAT = 1
    CRC = 2
    LIMIT = 3
    TRUNCATED = 4
    OVERRUN = 5
    LENGTH = 6
    TOKEN = 7
    NO_KEY = 8
    ABORTED = 9
    TIMEOUT = 10
    ROW = 11
    BUS = 12
    ADDRESS = 13


def fields(opcode: Opcode, bits: Value) -> data.View:
    """The fields of a descriptor of this opcode, from bytes 2.. of it."""
    layout = data.StructLayout({f.name: unsigned(8 * f.bytes) for f in FIELDS[opcode]})
    return data.View(layout, bits[: layout.size])


def flags(bits: Value, known: int = 0xFF) -> data.View:
    """The flags of byte 1 of a descriptor; those whose bit is not in `known` are 0."""
    return data.View(FLAG_BITS, bits & known)

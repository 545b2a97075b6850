"""The command stream's vocabulary: descriptors, their fields and their packing.

A model is one stream of words of M bytes. It consists of 32-byte descriptors, each padded with
zeros to whole words (32 bytes of them at M = 64) and followed by its payload, here in words of N:

    HEADER                                  once, first: what the model needs
    TABLE    256 bytes, WIDE 512            an activation table
    NORM     6 or 7 words for N channels    one LayerNorm; stands before the operation whose sum it
                                            normalises, so that its parameters are there in time
    EMBED                                   the rows come from the embedding interface
    BIAS     4 words for N keys, each head  position bias of the scores; directly behind the HEADER
    ROTARY   4 words for N positions, each pair of channels; behind HEADER and BIAS
    LINEAR   K + 7 words for N columns      of each tile of M: weights, then bias, m and s
    ATTEND                                  scores, softmax and context of all heads
    END                                     once, last

Bytes of a descriptor: 0 opcode, 1 flags (of the HEADER also log2 of the columns of the array a
lane, M / N, in bits 3:0), 2..27 fields (little-endian, in the order of `FIELDS`),
28..31 the CRC-32 (ISO-HDLC, as zlib computes it) of every byte of the stream before it, padding
and earlier CRCs included. So each descriptor vouches for the whole stream up to itself, and END for
the last payload; padding that is not zero is also a wrong CRC.

Parameters of N channels (gamma, beta, shifts, and the bias of N keys) are stored as byte planes:
byte i of a word belongs to channel i, so the format is the same for every N.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cli.errors import UserError

from golden.model import TOKENS_MAX
from rtl.interface.config import LANES, WAYS, ceil_div
from rtl.interface.isa import (
    BITS,
    FIELDS,
    FLAGS,
    HEADER_WAYS,
    NO_FLAGS,
    Flag,
    Opcode,
    flags_byte,
    flags_of,
)

Bytes = bytes | bytearray

DESCRIPTOR_BYTES = 32
FIELD_BYTES = 26
PARAMETER_PLANES = 7  # bias 4, m 2, s 1
NORM_PLANES = 6  # gamma 2, beta 4; with SHIFTS one more
TABLE_BYTES = 256
BIAS_PLANES = 2
ROTARY_PLANES = 2  # of cos and of sin
MAGIC = 0x54523242  # "B2RT"
VERSION = 7
WINDOW_BITS = 12  # of either side of a window; all ones are no limit

WINDOW_SIDE_MAX = 2**WINDOW_BITS - 2

BANK_SHIFT = 22
"""Place of the bank's number in an address of the activation banks; the offset is below it."""


def window_field(before: int | None, after: int | None) -> int:
    """The field `window` of an ATTEND: before in the low 12 bits, after in those above.

    4095 is no limit. So is a longer side: `rtl.compile.fit` has no sequence that it would limit.
    """
    most = WINDOW_SIDE_MAX + 1
    sides = (most if side is None else min(side, most) for side in (before, after))
    return sum(side << WINDOW_BITS * place for place, side in enumerate(sides))


def window_sides(window: int) -> tuple[int, int]:
    """Before and after of a field `window`; without a limit as far as two tokens may be apart."""
    sides = window & (1 << WINDOW_BITS) - 1, window >> WINDOW_BITS
    before, after = (side if side <= WINDOW_SIDE_MAX else TOKENS_MAX for side in sides)
    return before, after


def walked_keys(flags: Flag, window: int, row: int, tokens: int, lanes: int) -> range:
    """The keys of a sequence for which an ATTEND computes scores with row tile `row` of queries.

    All; with WINDOW those of the row tiles in which a query of this one may see some; with
    FIRST_TILE, which is of row tile 0 alone, to the last of the sequence.
    """
    if Flag.WINDOW not in flags:
        return range(tokens)
    before, after = (ceil_div(side, lanes) for side in window_sides(window))
    end = tokens if Flag.FIRST_TILE in flags else (row + after + 1) * lanes
    return range(max(row - before, 0) * lanes, min(end, tokens))


def bank_address(bank: int, offset: int = 0) -> int:
    """An address of the activation banks as a descriptor holds it: the same for every depth."""
    return bank << BANK_SHIFT | offset


def word_address(address: int, bank_words: int) -> int:
    """The word that a `bank_address` names where a bank has `bank_words` words."""
    return (address >> BANK_SHIFT) * bank_words + (address & (1 << BANK_SHIFT) - 1)


def descriptor_words(width: int) -> int:
    """Words of `width` bytes that a descriptor takes."""
    return ceil_div(DESCRIPTOR_BYTES, width)


def descriptor_bytes(width: int) -> int:
    """Bytes from a descriptor's first to its payload's: 32, padded to whole words."""
    return descriptor_words(width) * width


def encode(width: int, opcode: Opcode, flags: Flag = NO_FLAGS, **values: int) -> bytes:
    """The first 28 bytes of a descriptor of a stream of words of `width` bytes, M.

    Raises
    ------
    ValueError
        A field is missing, unknown or does not fit its bytes, or the opcode lacks a flag.
    """
    fields = FIELDS[opcode]
    if set(values) != {field.name for field in fields}:
        raise UserError(
            f"{opcode.name} takes the fields {[f.name for f in fields]}, not {sorted(values)}"
        )
    ways = width // values["lanes"] if opcode is Opcode.HEADER else 1
    body = bytearray([opcode, flags_byte(opcode, flags) | ways.bit_length() - 1])
    for field in fields:
        value = values[field.name]
        if not 0 <= value < 1 << (8 * field.bytes):
            maximum = 2 ** (8 * field.bytes) - 1
            raise UserError(f"{opcode.name}.{field.name} is {value}: it must lie in 0..{maximum}")
        body += int(value).to_bytes(field.bytes, "little")
    return bytes(body.ljust(2 + FIELD_BYTES, b"\0"))


def sealed(width: int, parts: Iterable[tuple[Bytes, Bytes]]) -> bytes:
    """The stream, in words of `width` bytes, of what `encode` gives and the payload behind each.

    Both are padded with zeros to whole words; a descriptor gets its CRC.
    """
    data, crc = bytearray(), 0
    padding = bytes(descriptor_bytes(width) - DESCRIPTOR_BYTES)
    for body, payload in parts:
        crc = zlib.crc32(body, crc)
        behind = crc.to_bytes(4, "little") + padding + payload + bytes(-len(payload) % width)
        crc = zlib.crc32(behind, crc)
        data += body + behind
    return bytes(data)


class Descriptor(NamedTuple):
    """A decoded descriptor: where it stands, what it asks for, whether CRC and padding hold.

    opcode, byte
        Bytes 0, an `Opcode` where it is one, and 1: the flags, and what else is set there.
    """

    offset: int
    opcode: int
    byte: int
    values: dict[str, int]
    crc_good: bool

    @property
    def flags(self) -> Flag:
        """The flags that the opcode has."""
        return flags_of(self.opcode, self.byte)

    @property
    def columns(self) -> int:
        """M of the arrays that a HEADER is for."""
        return self.values["lanes"] << (self.byte & HEADER_WAYS)

    def payload_bytes(self, lanes: int, width: int) -> int:
        """Bytes that follow it, on N lanes, in words of `width` bytes."""
        size, v = 0, self.values
        match self.opcode:
            case Opcode.TABLE:
                size = TABLE_BYTES * (1 + (Flag.WIDE in self.flags))
            case Opcode.NORM:
                planes = NORM_PLANES + (Flag.SHIFTS in self.flags)
                size = ceil_div(v["channels"], lanes) * planes * lanes
            case Opcode.LINEAR:
                tile = lanes if Flag.TRANSPOSED in self.flags else width
                size = (v["length"] + PARAMETER_PLANES) * ceil_div(v["columns"], tile) * tile
            case Opcode.BIAS:
                size = v["heads"] * 2 * v["row_tiles"] * BIAS_PLANES * lanes
            case Opcode.ROTARY:
                size = 2 * v["pairs"] * v["row_tiles"] * ROTARY_PLANES * lanes  # cos and sin
        return ceil_div(size, width) * width


def read(data: bytes, offset: int, padding: int) -> Descriptor:
    """The descriptor at `offset`, with so many zeros after it; the whole of it must be there."""
    body = data[offset : offset + DESCRIPTOR_BYTES]
    values, at = {}, 2
    opcode = Opcode(body[0]) if body[0] in set(Opcode) else body[0]
    for field in FIELDS[opcode] if isinstance(opcode, Opcode) else ():
        values[field.name] = int.from_bytes(body[at : at + field.bytes], "little")
        at += field.bytes
    good = zlib.crc32(data[: offset + 28]) == int.from_bytes(body[28:], "little")
    good &= not any(data[offset + DESCRIPTOR_BYTES :][:padding])
    return Descriptor(offset, opcode, body[1], values, good)


def decode(data: bytes) -> Iterator[Descriptor]:
    """The descriptors of a stream, in order.

    Raises
    ------
    ValueError
        The stream does not begin with a HEADER of this version and of a number of lanes that there
        is, ends before END, runs on after it, or has an unknown opcode.
    """
    offset, lanes, width, size = 0, 0, 0, DESCRIPTOR_BYTES
    while True:
        if offset + size > len(data):
            raise UserError(
                f"the stream ends at byte {len(data)}, before END: it is truncated, write it again"
            )
        one = read(data, offset, size - DESCRIPTOR_BYTES)
        if offset == 0:
            lanes, width = _array(one)
            size = descriptor_bytes(width)
            one = read(data, offset, size - DESCRIPTOR_BYTES)
        if one.opcode not in set(Opcode):
            known = f"{min(Opcode)}..{max(Opcode)}"
            raise UserError(f"byte {offset}: opcode {one.opcode} is unknown, allowed are {known}")
        yield one
        offset += size + one.payload_bytes(lanes, width)
        if one.opcode == Opcode.END:
            break
    if offset != len(data):
        raise UserError(
            f"{len(data) - offset} bytes follow END: the stream runs on, write it again"
        )


def _array(header: Descriptor) -> tuple[int, int]:
    """Lanes and columns by the first descriptor of a stream; ValueError as `decode`."""
    values, ways = header.values, header.byte & HEADER_WAYS
    if header.opcode != Opcode.HEADER or values["magic"] != MAGIC:
        raise UserError("the stream does not begin with a HEADER: it is no model.bin")
    if values["version"] != VERSION:
        what = f"the stream has version {values['version']}, not {VERSION}"
        raise UserError(f"{what}: compile the model again")
    if values["lanes"] not in LANES:
        choice = ", ".join(map(str, LANES))
        what = f"the stream is for {values['lanes']} lanes, not one of {choice}"
        raise UserError(f"{what}: compile the model again")
    if 1 << ways not in WAYS:
        flags = ", ".join(f"with {f.name} {1 << BITS[f]}" for f in FLAGS[Opcode.HEADER])
        raise UserError(
            f"byte 1 of the stream is {header.byte}: it must be 0..{len(WAYS) - 1}, the binary "
            f"logarithm of columns a lane, {flags} more"
        )
    return values["lanes"], header.columns

"""The command stream's vocabulary: descriptors, their fields and their packing.

A model is one stream of words of N bytes. It consists of 32-byte descriptors, each padded with
zeros to whole words (32 bytes of them at N = 64) and followed by its payload:

    HEADER                                  once, first: what the model needs
    TABLE    256 bytes, WIDE 512            an activation table
    NORM     6 or 7 words for N channels    one LayerNorm; stands before the operation whose sum it
                                            normalises, so that its parameters are there in time
    EMBED                                   the rows come from the embedding interface
    BIAS     4 words for N keys, each head  position bias of the scores; directly behind the HEADER
    LINEAR   K + 7 words for N columns      of each tile of M: weights, then bias, m and s
    ATTEND                                  scores, softmax and context of all heads
    END                                     once, last

Bytes of a descriptor: 0 opcode, 1 flags (of the HEADER, which has BIAS and WINDOW alone, also log2
of the columns of the array a lane, M / N), 2..27 fields (little-endian, in the order of `FIELDS`),
28..31 the CRC-32 (ISO-HDLC, as zlib computes it) of every byte of the stream before it, padding
and earlier CRCs included. So each descriptor vouches for the whole stream up to itself, and END for
the last payload; padding that is not zero is also a wrong CRC.

Parameters of N channels (gamma, beta, shifts, and the bias of N keys) are stored as byte planes:
byte i of a word belongs to channel i, so the format is the same for every N.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import IntEnum, IntFlag
from typing import NamedTuple

from cli.errors import UserError

from golden.model import TOKENS_MAX
from rtl.interface.config import LANES, WAYS, ceil_div

DESCRIPTOR_BYTES = 32
FIELD_BYTES = 26
PARAMETER_PLANES = 7  # bias 4, m 2, s 1
NORM_PLANES = 6  # gamma 2, beta 4; with Flag.SHIFTS one more
TABLE_BYTES = 256
BIAS_PLANES = 2
ROTARY_PLANES = 2  # of cos and of sin
MAGIC = 0x54523242  # "B2RT"
VERSION = 7
EPSILON_BITS = 50
NORM_SHIFT_MAX = 31
GATE_SHIFT_MAX = 31
RESIDUAL_SHIFT_MAX = 15
SHIFT_MAX = 47  # of a multiplier m * 2^-s
WINDOW_BITS = 12  # of either side of a window; all ones are no limit

WINDOW_SIDE_MAX = 2**WINDOW_BITS - 2

BANK_SHIFT = 22
"""Place of the bank's number in an address of the activation banks; the offset is below it."""


class Opcode(IntEnum):
    """The operation of a descriptor."""

    HEADER = 1
    TABLE = 2
    NORM = 3
    EMBED = 4
    LINEAR = 5
    ATTEND = 6
    END = 7
    BIAS = 8
    ROTARY = 9


class Flag(IntFlag):
    """Choices of an operation; `flags_byte` has them as a descriptor does, `flags_of` reads them.

    FIRST_TILE
        Compute row tile 0 only.
    TABLE
        Send the int8 result through the activation table (LINEAR).
    TRANSPOSED
        Weights are operand A, activations operand B: V, whose channels lie across the lanes
        (LINEAR).
    RESIDUAL
        NORM: write the int16 output to X16 too (post-norm). LINEAR: add to X16.
    CHAINED
        The NORM before this one writes what it reads (NORM).
    BANK
        Operand A is read from the activation banks, not from X8 (LINEAR).
    LOGITS
        The results are the logits (LINEAR).
    SHIFTS
        The payload has a plane more, the shift of each channel's int8 operand (NORM).
    WIDE
        LINEAR: activations have 16 bits and take two passes. TABLE: a table of the low halves
        follows that of the high ones. Hardware without `Config.precise` has no such flag. In a
        descriptor it is `SHARED_BIT`, which CHAINED has in a NORM.
    BIAS
        HEADER: a BIAS follows. ATTEND: scores get its position bias. Hardware without
        `Config.bias_heads` has no such flag. It is `SHARED_BIT`, too.
    WINDOW
        HEADER: some ATTEND has it. ATTEND: a query sees the keys of its window. Hardware without
        `Config.windows` has no such flag. In a descriptor it is the bit of BANK.
    RMS
        NORM: it is an RMSNorm, of at most 1023 channels. Hardware without `Config.rms_norm` has no
        such flag. In a descriptor it is the bit of LOGITS.
    ROTARY
        HEADER: a ROTARY follows, behind a BIAS where there is one. LINEAR: results are turned by
        rotary positions. Hardware without `Config.rotary_pairs` has no such flag. In a descriptor
        it is the bit of SHIFTS.
    GATED
        HEADER: some LINEAR has a gate. Hardware without `Config.gated` has no such flag. In a
        descriptor it is the bit of LOGITS.
    """

    FIRST_TILE = 1
    TABLE = 2
    TRANSPOSED = 4
    RESIDUAL = 8
    CHAINED = 16
    BANK = 32
    LOGITS = 64
    SHIFTS = 128
    WIDE = 256
    BIAS = 512
    WINDOW = 1024
    ROTARY = 2048
    RMS = 4096
    GATED = 8192


NO_FLAGS = Flag(0)

ALLOWED_FLAGS = {
    Opcode.HEADER: NO_FLAGS,
    Opcode.TABLE: NO_FLAGS,
    Opcode.NORM: Flag.FIRST_TILE | Flag.RESIDUAL | Flag.CHAINED | Flag.SHIFTS,
    Opcode.EMBED: NO_FLAGS,
    Opcode.LINEAR: Flag.FIRST_TILE
    | Flag.TABLE
    | Flag.TRANSPOSED
    | Flag.RESIDUAL
    | Flag.BANK
    | Flag.LOGITS,
    Opcode.ATTEND: Flag.FIRST_TILE,
    Opcode.END: NO_FLAGS,
}
"""Which flags an opcode has; any other set bit is refused."""

WIDE_OPCODES = Opcode.LINEAR, Opcode.TABLE
"""The opcodes that may be WIDE."""

BIAS_OPCODES = Opcode.HEADER, Opcode.ATTEND
"""The opcodes that may have the flag BIAS."""

WINDOW_OPCODES = Opcode.HEADER, Opcode.ATTEND
"""The opcodes that may have the flag WINDOW."""

ROTARY_OPCODES = Opcode.HEADER, Opcode.LINEAR
"""The opcodes that may have the flag ROTARY."""

SHARED_BIT = 16
"""The bit of CHAINED, WIDE and BIAS in the flags of the opcodes that have one of them."""

WINDOW_BIT = int(Flag.BANK)
"""The bit of BANK and WINDOW in the flags of the opcodes that have one of them."""

RMS_BIT = int(Flag.LOGITS)
"""The bit of LOGITS, RMS and GATED in the flags of the opcodes that have one of them."""

ROTARY_BIT = int(Flag.SHIFTS)
"""The bit of SHIFTS and ROTARY in the flags of the opcodes that have one of them."""

SHARING = {
    SHARED_BIT: Flag.CHAINED | Flag.WIDE | Flag.BIAS,
    WINDOW_BIT: Flag.BANK | Flag.WINDOW,
    RMS_BIT: Flag.LOGITS | Flag.RMS | Flag.GATED,
    ROTARY_BIT: Flag.SHIFTS | Flag.ROTARY,
}
"""Bits of a descriptor that are several flags."""

HEADER_BITS = SHARED_BIT | WINDOW_BIT | RMS_BIT | ROTARY_BIT
"""Bits of byte 1 of a HEADER that are flags; the others are the shape of the array."""


def flags_byte(flags: Flag) -> int:
    """The flags as byte 1 of a descriptor.

    Raises
    ------
    ValueError
        Two flags of one bit, which belong to different opcodes, are there.
    """
    byte = 0
    for bit, which in SHARING.items():
        sharing = [flag.name or "" for flag in flags & which]
        if len(sharing) > 1:
            raise UserError(f"flags are {' and '.join(sharing)}: no opcode has both")
        byte |= bit * len(sharing)
        flags &= ~which
    return byte | int(flags)


def flags_of(opcode: Opcode, byte: int) -> Flag:
    """The flags of a descriptor by its byte 1: what bits 4 to 7 are, the opcode says."""
    found = Flag(byte)
    if byte & SHARED_BIT and opcode in (*WIDE_OPCODES, *BIAS_OPCODES):
        found ^= Flag.CHAINED | (Flag.WIDE if opcode in WIDE_OPCODES else Flag.BIAS)
    if byte & WINDOW_BIT and opcode in WINDOW_OPCODES:
        found ^= Flag.BANK | Flag.WINDOW
    if byte & RMS_BIT and opcode == Opcode.NORM:
        found ^= Flag.LOGITS | Flag.RMS
    if byte & RMS_BIT and opcode == Opcode.HEADER:
        found ^= Flag.LOGITS | Flag.GATED
    if byte & ROTARY_BIT and opcode in ROTARY_OPCODES:
        found ^= Flag.SHIFTS | Flag.ROTARY
    return found


def way_bits_of(byte: int) -> int:
    """log2(M / N) by byte 1 of a HEADER."""
    return byte & ~HEADER_BITS


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
    if not flags & Flag.WINDOW:
        return range(tokens)
    before, after = (ceil_div(side, lanes) for side in window_sides(window))
    end = tokens if flags & Flag.FIRST_TILE else (row + after + 1) * lanes
    return range(max(row - before, 0) * lanes, min(end, tokens))


class Field(NamedTuple):
    """A field of a descriptor: name and width in bytes."""

    name: str
    bytes: int


FIELDS: dict[Opcode, tuple[Field, ...]] = {
    Opcode.HEADER: (
        Field("magic", 4),
        Field("version", 1),
        Field("lanes", 1),
        Field("tokens", 2),  # longest sequence that the model and its buffers take
        Field("hidden", 2),
        Field("ffn", 2),
        Field("labels", 2),
        Field("rows", 4),  # CRC-32 of the embedding table's rows; hardware reads neither
        Field("model", 8),  # which model it is: `golden.identity`, the first byte the lowest
    ),
    Opcode.TABLE: (),
    Opcode.NORM: (
        Field("channels", 2),
        Field("shift", 1),
        Field("epsilon", 7),
    ),
    Opcode.EMBED: (
        Field("token_factor", 1),
        Field("position_factor", 1),
        Field("channels", 2),
        Field("token_rows", 3),  # rows of the token table: the ids must be below
        Field("position_rows", 2),  # rows of the position table of one type
        Field("offset", 2),  # position of the first token
        Field("types", 1),  # types above it are refused; 0 and 1 take type 0 only
        Field("wide", 1),  # 1: a value has 16 bits, a word of high and one of low bytes
    ),
    Opcode.LINEAR: (
        Field("length", 2),  # K
        Field("columns", 2),  # output channels (TRANSPOSED: a multiple of N)
        Field("source", 3),  # of row tile 0, channel 0: in X8, or a `bank_address`
        Field("source_stride", 2),  # words a row tile
        Field("destination", 3),  # in X16 (RESIDUAL), the logits (LOGITS), or a `bank_address`
        Field("destination_stride", 2),
        Field("shift", 1),  # RESIDUAL: round_shift of X16 before the addition
        Field("head_size", 2),  # ROTARY: channels after which the pairs begin anew, even; else 0
        Field("rotary", 2),  # ROTARY: the pair of the tables that a head's first channels take
        Field("gate", 1),  # with GATED of the HEADER: round_shift of the product; 0: none
    ),
    Opcode.ATTEND: (
        Field("heads", 1),
        Field("head_size", 2),
        Field("stride", 2),  # words a row tile of Q, K and the context
        Field("query", 3),  # `bank_address`, as the three that follow
        Field("key", 3),
        Field("value", 3),
        Field("context", 3),
        Field("score_m", 2),
        Field("score_s", 1),
        Field("context_m", 2),
        Field("context_s", 1),
        Field("window", 3),  # with WINDOW, see `window_field`; else 0
    ),
    Opcode.END: (),
    Opcode.BIAS: (
        Field("heads", 1),
        Field("row_tiles", 2),  # R: the keys of N R tokens, before and behind a query
    ),
    Opcode.ROTARY: (
        Field("pairs", 2),  # of all tables together
        Field("row_tiles", 2),  # R: the positions of N R tokens
    ),
}


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


def encode(opcode: Opcode, flags: Flag = NO_FLAGS, **values: int) -> bytes:
    """The first 28 bytes of a descriptor.

    Raises
    ------
    ValueError
        A field is missing, unknown or does not fit its bytes.
    """
    fields = FIELDS[opcode]
    if set(values) != {field.name for field in fields}:
        raise UserError(
            f"{opcode.name} takes the fields {[f.name for f in fields]}, not {sorted(values)}"
        )
    body = bytearray([opcode, flags_byte(flags)])
    for field in fields:
        value = values[field.name]
        if not 0 <= value < 1 << (8 * field.bytes):
            maximum = 2 ** (8 * field.bytes) - 1
            raise UserError(f"{opcode.name}.{field.name} is {value}: it must lie in 0..{maximum}")
        body += int(value).to_bytes(field.bytes, "little")
    return bytes(body.ljust(2 + FIELD_BYTES, b"\0"))


class Stream:
    """A command stream under construction; `bytes()` of it is the stream.

    Parameters
    ----------
    width
        Bytes of a word, M. Descriptors and payloads are padded with zeros to whole words.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._data = bytearray()
        self._crc = 0

    def _append(self, data: bytes) -> None:
        self._data += data
        self._crc = zlib.crc32(data, self._crc)

    def descriptor(self, opcode: Opcode, flags: Flag = NO_FLAGS, **values: int) -> None:
        """Append a descriptor with its CRC."""
        self._append(encode(opcode, flags, **values))
        self._append(self._crc.to_bytes(4, "little"))
        self._append(bytes(descriptor_bytes(self.width) - DESCRIPTOR_BYTES))

    def payload(self, data: bytes) -> None:
        """Append parameters, weights or a table, padded to whole words."""
        self._append(data + bytes(-len(data) % self.width))

    def __bytes__(self) -> bytes:
        return bytes(self._data)


class Descriptor(NamedTuple):
    """A decoded descriptor: where it stands, what it asks for, whether CRC and padding hold."""

    offset: int
    opcode: Opcode
    flags: Flag
    values: dict[str, int]
    crc_good: bool

    def payload_bytes(self, lanes: int, width: int) -> int:
        """Bytes that follow it, on N lanes, in words of `width` bytes."""
        size = 0
        match self.opcode:
            case Opcode.TABLE:
                size = TABLE_BYTES * (1 + bool(self.flags & Flag.WIDE))
            case Opcode.NORM:
                planes = NORM_PLANES + bool(self.flags & Flag.SHIFTS)
                size = ceil_div(self.values["channels"], lanes) * planes * lanes
            case Opcode.LINEAR:
                tile = lanes if self.flags & Flag.TRANSPOSED else width
                size = self.values["length"] + PARAMETER_PLANES
                size *= ceil_div(self.values["columns"], tile) * tile
            case Opcode.BIAS:
                words = self.values["heads"] * 2 * self.values["row_tiles"]
                size = words * BIAS_PLANES * lanes
            case Opcode.ROTARY:
                words = 2 * self.values["pairs"] * self.values["row_tiles"]  # cos and sin
                size = words * ROTARY_PLANES * lanes
        return ceil_div(size, width) * width


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
            raise UserError(f"the stream ends at byte {len(data)}, before END: it is truncated")
        body = data[offset : offset + DESCRIPTOR_BYTES]
        if body[0] not in set(Opcode):
            raise UserError(f"byte {offset}: opcode {body[0]} is unknown, allowed are 1..9")
        opcode, values, at = Opcode(body[0]), {}, 2
        for field in FIELDS[opcode]:
            values[field.name] = int.from_bytes(body[at : at + field.bytes], "little")
            at += field.bytes
        good = zlib.crc32(data[: offset + 28]) == int.from_bytes(body[28:], "little")
        descriptor = Descriptor(offset, opcode, flags_of(opcode, body[1]), values, good)
        if offset == 0:
            if opcode is not Opcode.HEADER or values["magic"] != MAGIC:
                raise UserError("the stream does not begin with a HEADER: it is no model.bin")
            if values["version"] != VERSION:
                raise UserError(f"the stream has version {values['version']}, not {VERSION}")
            lanes = values["lanes"]
            if lanes not in LANES:
                choice = ", ".join(map(str, LANES))
                raise UserError(f"the stream is for {lanes} lanes, not one of {choice}")
            if 1 << way_bits_of(body[1]) not in WAYS:
                raise UserError(
                    f"byte 1 of the stream is {body[1]}: it must be 0..{len(WAYS) - 1}, the binary "
                    f"logarithm of columns a lane, with BIAS {SHARED_BIT} more, with WINDOW "
                    f"{WINDOW_BIT}, with GATED {RMS_BIT}, with ROTARY {ROTARY_BIT} more"
                )
            width = lanes << way_bits_of(body[1])
            size = descriptor_bytes(width)
        padding = data[offset + DESCRIPTOR_BYTES : offset + size]
        yield descriptor._replace(crc_good=good and padding == bytes(size - DESCRIPTOR_BYTES))
        offset += size + descriptor.payload_bytes(lanes, width)
        if opcode is Opcode.END:
            break
    if offset != len(data):
        raise UserError(f"{len(data) - offset} bytes follow END: the stream runs on")

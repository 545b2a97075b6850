"""The protocol of the serial line: frames, requests, replies. Standard library only.

A frame lies between two flags (0x7E) as in HDLC (RFC 1662): a byte that is a flag or an escape is
sent as the escape 0x7D and the byte with bit 5 inverted. Inside:

| bytes | what |
| --- | --- |
| 0 | kind |
| 1 | number: a reply has that of its request |
| 2..3 | length n of the payload |
| 4..3 + n | payload |
| 4 + n..7 + n | CRC-32/ISO-HDLC (zlib's) of all bytes before it |

All numbers are little-endian. Flags without anything between them mean nothing.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

VERSION = 4
FLAG, ESCAPE, INVERT = 0x7E, 0x7D, 0x20
HEAD = struct.Struct("<BBH")
CRC_BYTES = 4
LONGEST = 1028
"""Bytes of the longest payload of a request: an address and 1 KiB."""
LONGEST_REPLY = 65_535
"""Bytes of the longest payload of a reply: as many as its length can say."""
BAUD = 1_000_000
ALIGNMENT = 8
"""A WRITE begins at a multiple of it and has a multiple of it."""
REPLY = 0x80
"""Added to the kind of a request in its reply."""


class Kind(IntEnum):
    """Requests; payload, and payload of the reply.

    INFO   nothing; `Info`.
    WRITE  address 4, bytes; nothing. Taken although replies are still on their way, and the same
           bytes twice are as good as once. No image is in use then until the next USE.
    USE    nothing; nothing. The memory from address 0 on is checked as an image, then used.
    RUN    a word a token, id[23:0], type[24], attend[25], ends[26] with the last of a sequence
           that another one follows; cycles 4, logits 4 each, sequence by sequence; where the image
           has a class for every token, token by token.
    ERROR  only as a reply: code 1, detail 4.
    """

    INFO = 1
    WRITE = 2
    USE = 3
    RUN = 4
    ERROR = 0x7F


class Refusal(IntEnum):
    """The code of an ERROR, and its detail.

    DAMAGED    what came was no frame; its number is 0, for nobody knows it.
    KIND       a kind that the board does not know; the kind.
    LENGTH     a payload that this kind cannot have; its length.
    ADDRESS    beyond the memory, or not aligned; the address.
    IMAGE      there is none to use; `Problem`.
    INFERENCE  the accelerator ended with an error; bits 7:0 its code, bits 31:16 the sequence, from
               0, where the code is of one: LENGTH, TOKEN, NO_KEY, ROW.
    """

    DAMAGED = 1
    KIND = 2
    LENGTH = 3
    ADDRESS = 4
    IMAGE = 5
    INFERENCE = 6


class Problem(IntEnum):
    """Why there is no image to use."""

    NONE = 0
    EMPTY = 1
    HEADER = 2
    LANES = 3
    SIZE = 4
    STREAM = 5
    ROWS = 6


PROBLEMS = {
    Problem.NONE: "nothing is wrong with it",
    Problem.EMPTY: "none was loaded, or not to its end",
    Problem.HEADER: "its header is none, damaged, or of another format than this bitstream reads",
    Problem.LANES: "it is for another number of lanes or columns or another version of the stream",
    Problem.SIZE: "it is larger than the memory, or its sections do not lie in it",
    Problem.STREAM: "its command stream is damaged",
    Problem.ROWS: "its rows are damaged, or those of another model than its command stream",
}


@dataclass(frozen=True)
class Frame:
    """A frame that came whole."""

    kind: int
    number: int
    payload: bytes


@dataclass(frozen=True)
class Damaged:
    """What lay between two flags and is no frame."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Info:
    """The reply to INFO.

    Attributes
    ----------
    version
        Of this protocol.
    problem
        Why no image is in use; NONE: one is.
    longest
        Bytes of the longest payload of a request.
    memory_bytes, kilohertz
        Of the board's memory; its clock.
    stream_version, lanes, columns, tokens, hidden, ffn, labels
        The accelerator's registers.
    model
        Which model the image in use has, `golden.identity`, as its stream says; zeros without one.
    digest
        SHA-256 of that image, as its header has it; likewise.
    """

    version: int = VERSION
    problem: Problem
    longest: int = LONGEST
    memory_bytes: int
    kilohertz: int
    stream_version: int
    lanes: int
    columns: int
    tokens: int
    hidden: int
    ffn: int
    labels: int
    model: bytes = bytes(8)
    digest: bytes = bytes(32)

    def to_bytes(self) -> bytes:
        return INFO.pack(*vars(self).values())

    @classmethod
    def from_bytes(cls, payload: bytes) -> Info:
        """Raises ValueError where it is none of this version."""
        if len(payload) != INFO.size or payload[0] != VERSION:
            version = payload[0] if payload else "none"
            raise ValueError(
                f"the board speaks version {version} of the protocol, this program {VERSION}: use "
                "a host program and a bitstream of one version"
            )
        values = INFO.unpack(payload)
        try:
            problem = Problem(values[1])
        except ValueError:
            raise ValueError(f"the board says problem {values[1]}, which is none") from None
        return cls(**dict(zip(cls.__dataclass_fields__, values)) | {"problem": problem})


INFO = struct.Struct("<BBHIIBBHHHHH8s32s")


def encode(kind: int, number: int, payload: bytes = b"") -> bytes:
    """The bytes of a frame on the line, with both flags."""
    body = HEAD.pack(kind, number, len(payload)) + payload
    body += zlib.crc32(body).to_bytes(CRC_BYTES, "little")
    out = bytearray([FLAG])
    for byte in body:
        out += bytes([ESCAPE, byte ^ INVERT]) if byte in (FLAG, ESCAPE) else bytes([byte])
    out.append(FLAG)
    return bytes(out)


class Decoder:
    """Bytes of the line into frames; whatever came before, the next flag begins a frame."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._most = HEAD.size + longest + CRC_BYTES
        self._body = bytearray()
        self._escaped = False
        self._over = False

    def feed(self, data: bytes) -> list[Frame | Damaged]:
        """What ended within these bytes."""
        found: list[Frame | Damaged] = []
        for byte in data:
            if byte == FLAG:
                if self._body or self._escaped or self._over:
                    found.append(self._ended())
                self._body.clear()
                self._escaped = self._over = False
            elif byte == ESCAPE and not self._escaped:
                self._escaped = True
            elif len(self._body) < self._most:
                self._body.append(byte ^ INVERT if self._escaped else byte)
                self._escaped = False
            else:
                self._over = True
        return found

    def _ended(self) -> Frame | Damaged:
        body = bytes(self._body)
        if self._over:
            return Damaged(f"longer than {self._most} bytes")
        if self._escaped:
            return Damaged("ends with an escape")
        if len(body) < HEAD.size + CRC_BYTES:
            return Damaged(f"{len(body)} bytes: shorter than any frame")
        kind, number, length = HEAD.unpack_from(body)
        if len(body) != HEAD.size + length + CRC_BYTES:
            return Damaged(f"{len(body)} bytes where its length says {length}")
        crc = int.from_bytes(body[-CRC_BYTES:], "little")
        if zlib.crc32(body[:-CRC_BYTES]) != crc:
            return Damaged("its CRC is wrong")
        return Frame(kind, number, body[HEAD.size : -CRC_BYTES])

"""One file for flash or memory: a header, the command stream, the rows of the embedding table.

| bytes | what |
| --- | --- |
| 0..7 | magic, `B2RTIMG` and a zero byte |
| 8..9 | version of this format, 2 |
| 10..11 | bytes of the header, 128 |
| 12..15 | CRC-32 of the header, with these four bytes as zeros |
| 16..23 | bytes of the image |
| 24..31, 32..39 | command stream: offset, bytes |
| 40..47, 48..55 | rows: offset, bytes |
| 56..59, 60..63 | bytes of a row; rows |
| 64..67, 68..71 | CRC-32 of all bytes from the stream to the rows; of the rows |
| 72, 73 | lanes; version of the command stream |
| 74..75, 76..77, 78..79, 80..81 | tokens, hidden, ffn, labels, as in the stream's HEADER |
| 82..83 | columns of the array |
| 84..87 | zeros |
| 88..95 | which model it is, as in the stream's HEADER |
| 96..127 | SHA-256 of all bytes after the header |

All numbers are little-endian, offsets count from the image's first byte. The stream begins at byte
128, the rows at the next multiple of 4096, zeros between them. An image that lies at a multiple of
64 bytes has both sections aligned for every number of lanes and every width of a bus. Its bytes
depend on model and configuration alone.

The three CRCs cover every byte. The stream's HEADER has the CRC of the rows as well, so that stream
and rows of two models make no image, whatever its header says.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass

from cli.errors import UserError

from golden.identity import IDENTITY_BYTES
from rtl.interface.command import Descriptor, decode

MAGIC = b"B2RTIMG\0"
FORMAT = 2
HEADER = struct.Struct("<8sHHI5Q4I2B5H4x8s32s")
MODEL_AT = 88
CRC_AT = 12
ALIGNMENT = 4096


def rows_offset(stream_bytes: int) -> int:
    """The offset of the rows in the image of a stream."""
    return -(-(HEADER.size + stream_bytes) // ALIGNMENT) * ALIGNMENT


class ImageError(UserError):
    """The bytes are no sound image; the message says what is wrong and what to do."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """The contents of an image.

    Attributes
    ----------
    stream
        The command stream, model.bin.
    rows
        The flat embedding table, model.rows.bin.
    row_bytes
        Bytes of one of its rows.
    """

    stream: bytes
    rows: bytes
    row_bytes: int

    @property
    def lanes(self) -> int:
        """N of the accelerators that it is for."""
        return _header(self.stream).values["lanes"]

    @property
    def columns(self) -> int:
        """M of their arrays."""
        return _header(self.stream).columns

    @property
    def model(self) -> bytes:
        """`golden.identity` of the model, as the stream's HEADER has it."""
        return _header(self.stream).values["model"].to_bytes(IDENTITY_BYTES, "little")

    @property
    def row_count(self) -> int:
        return len(self.rows) // self.row_bytes

    @property
    def stream_offset(self) -> int:
        return HEADER.size

    @property
    def rows_offset(self) -> int:
        """The offset of the rows in the image."""
        return rows_offset(len(self.stream))


def _header(stream: bytes) -> Descriptor:
    """HEADER; raises ValueError where the stream has none of this version."""
    return next(decode(stream))


def image_bytes(image: Image) -> bytes:
    """The file.

    Raises
    ------
    ImageError
        The rows are no whole number of rows, a row is no whole number of words, or the rows are not
        those of the stream.
    """
    stream, rows = image.stream, image.rows
    if image.row_bytes < 1 or not rows or len(rows) % image.row_bytes:
        raise ImageError(f"the rows have {len(rows)} bytes: no whole rows of {image.row_bytes}")
    if image.row_bytes % image.lanes or len(stream) % image.columns:
        raise ImageError(
            f"the stream has {len(stream)} bytes and a row {image.row_bytes}: no whole words of "
            f"{image.columns} and {image.lanes} bytes"
        )
    rows_crc = zlib.crc32(rows)
    if rows_crc != _header(stream).values["rows"]:
        raise ImageError(
            "the rows are damaged, or those of another model than the stream: take both from one "
            "run of `python -m rtl.compile`"
        )
    padded = stream + bytes(image.rows_offset - HEADER.size - len(stream))
    body = padded + rows
    fields = (
        MAGIC,
        FORMAT,
        HEADER.size,
        0,
        HEADER.size + len(body),
        image.stream_offset,
        len(stream),
        image.rows_offset,
        len(rows),
        image.row_bytes,
        image.row_count,
        zlib.crc32(padded),
        rows_crc,
        image.lanes,
        stream[6],
        *struct.unpack_from("<4H", stream, 8),
        image.columns,
        image.model,
        hashlib.sha256(body).digest(),
    )
    header = bytearray(HEADER.pack(*fields))
    struct.pack_into("<I", header, CRC_AT, zlib.crc32(header))
    return bytes(header) + body


def read_image(data: bytes) -> Image:
    """The contents of an image, after every check of its bytes.

    Raises
    ------
    ImageError
        The bytes are no image, cut, longer than the header says, or damaged.
    """
    if len(data) < HEADER.size:
        raise ImageError(
            f"the image ends at byte {len(data)}, before its header of {HEADER.size}: it is cut"
        )
    if data[: len(MAGIC)] != MAGIC:
        raise ImageError(
            f"the image begins with {data[:8]!r}, not {MAGIC!r}: it is none, or damaged; "
            "`python -m rtl.compile --image FILE` writes one"
        )
    header = bytearray(data[: HEADER.size])
    struct.pack_into("<I", header, CRC_AT, 0)
    fields = HEADER.unpack(data[: HEADER.size])
    (version, _, crc, size), digest = fields[1:5], fields[-1]
    stream_at, stream_size, rows_at, rows_size, row_bytes = fields[5:10]
    if zlib.crc32(header) != crc:
        raise ImageError("the image's header is damaged (CRC): write the image again")
    if version != FORMAT:
        raise ImageError(
            f"the image has format {version}, not {FORMAT}: write it again, with "
            "`python -m rtl.compile --image FILE`"
        )
    if len(data) != size:
        more = "it is cut" if len(data) < size else "something follows it"
        more += ": write it again"
        raise ImageError(f"the image has {len(data)} bytes, its header says {size}: {more}")
    if hashlib.sha256(memoryview(data)[HEADER.size :]).digest() != digest:
        raise ImageError("the image is damaged behind its header (SHA-256): write it again")
    stream = data[stream_at : stream_at + stream_size]
    image = Image(stream=stream, rows=data[rows_at : rows_at + rows_size], row_bytes=row_bytes)
    try:
        sound = image_bytes(image) == data
    except ValueError:
        sound = False
    if not sound:
        raise ImageError("the image's header does not say what is in it: write it again")
    return image

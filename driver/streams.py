"""The contents of the accelerator's streams, by inference; standard library only."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache

HEADER, TABLE, NORM, EMBED, LINEAR, BIAS, ROTARY = 1, 2, 3, 4, 5, 8, 9
DESCRIPTOR_BYTES = 32
SHIFTS = 128  # flag of a NORM with a plane more
WIDE = 16  # flag of a TABLE with low halves
BIASED, WINDOWED, GATED, TURNED = 16, 32, 64, 128
"""Flags of a HEADER: with a BIAS behind it, with windows, gates, a ROTARY behind it."""
FIRST_TILE, TRANSPOSED, LOGITS = 1, 4, 64  # flags of a LINEAR
PARAMETER_PLANES = 7
GIVEN = 255 | 1 << 8  # factors of EMBED, wide: of a token row, and of a position, which is zero
ROWS_AT, MODEL_AT, MODEL_BYTES = 16, 20, 8  # of HEADER: CRC-32 of the rows, hash of the model


def model(stream: bytes) -> str:
    """Which model a command stream has: the hash that `python -m rtl.compile` prints.

    Raises
    ------
    ValueError
        It is no command stream.
    """
    next(_descriptors(stream), None)
    return bytes(stream[MODEL_AT : MODEL_AT + MODEL_BYTES]).hex()


def way_bits(stream: bytes) -> int:
    """Of the array that a command stream is for, log2 of columns a lane."""
    return stream[1] & ~(BIASED | WINDOWED | GATED | TURNED)


def check_rows(stream: bytes, table: bytes) -> None:
    """Nothing where the rows of the embedding table are whole and belong to a command stream.

    The accelerator cannot tell: whoever puts rows where it reads them checks them by this.

    Raises
    ------
    ValueError
        They are damaged, or another model's; or the stream is none.
    """
    next(_descriptors(stream), None)
    if _crc(bytes(table)) != int.from_bytes(stream[ROWS_AT : ROWS_AT + 4], "little"):
        raise ValueError(
            "the rows are damaged, or those of another model than the command stream: use the "
            "model.rows.bin that was written with it"
        )


@lru_cache(maxsize=1)
def _crc(table: bytes) -> int:
    """Computed once for a table that is used again."""
    return zlib.crc32(table)


def embed(stream: bytes) -> dict[str, int]:
    """Lanes, labels and the fields of EMBED in a command stream (docs/architecture.md).

    Raises
    ------
    ValueError
        It is none, or it is cut.
    """
    for opcode, _, fields in _descriptors(stream):
        if opcode == EMBED:
            channels, low, high, positions, offset, types, wide = struct.unpack_from(
                "<HHBHHBB", fields, 2
            )
            lanes = stream[7]
            return {
                "lanes": lanes,
                "channels": channels,
                "factors": fields[0] | fields[1] << 8 if wide & 1 else 0,
                "labels": int.from_bytes(stream[14:16], "little"),
                "row_words": -(-channels // lanes) << (wide & 1),
                "token_rows": low | high << 16,
                "position_rows": positions,
                "offset": offset,
                "types": types,
            }
        if opcode not in (TABLE, NORM, BIAS, ROTARY):
            break
    raise ValueError("the command stream has no EMBED where one must come: it is cut or damaged")


def given(stream: bytes, rows: Sequence[Sequence[int]]) -> bytes:
    """Rows that a host computed, as they stand in the table from its first row on.

    They are those of a model of images: `rows` has embedding.sum of docs/numerics.md, a sequence of
    the model's channels for each token. Ids are the numbers of the rows.

    Raises
    ------
    ValueError
        The model reads a table of its own, the stream is none, or the rows are not of its size, or
        beyond -32512..32512.
    """
    facts = embed(stream)
    if facts["factors"] != GIVEN:
        raise ValueError("the command stream is of a model with a table of its own: it takes none")
    if len(rows) > facts["token_rows"]:
        raise ValueError(f"rows are {len(rows)}: the model takes 1..{facts['token_rows']}")
    lanes, words = facts["lanes"], []
    for number, row in enumerate(rows):
        if len(row) != facts["channels"]:
            raise ValueError(
                f"row {number} has {len(row)} values: it must have {facts['channels']}"
            )
        for x in row:
            if not -32512 <= x <= 32512:
                raise ValueError(f"row {number} has {x}: it must lie in -32512..32512")
        high = [(x + 127) // 255 for x in row]
        low = [x - 255 * h for x, h in zip(row, high)]
        for first in range(0, len(row), lanes):
            for half in (high, low):
                word = half[first : first + lanes]
                words.append(struct.pack(f"{len(word)}b", *word).ljust(lanes, b"\0"))
    return b"".join(words)


def logits(stream: bytes, tokens: int) -> int:
    """How many logits come of a sequence with so many tokens.

    That is the model's labels, or, where it has a class for every token, so many for each.

    Raises
    ------
    ValueError
        It is no command stream, or it is cut.
    """
    for opcode, flags, fields in _descriptors(stream):
        if opcode == LINEAR and flags & LOGITS:
            columns = int.from_bytes(fields[2:4], "little")
            return columns * (1 if flags & FIRST_TILE else tokens)
    raise ValueError("the command stream computes no logits: it is cut or damaged")


def _descriptors(stream: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Opcode, flags and fields (26 bytes) of each behind HEADER, as far as the stream goes."""
    if len(stream) < DESCRIPTOR_BYTES or stream[0] != HEADER or stream[2:6] != b"B2RT":
        raise ValueError("this is no command stream: rtl.compile writes one (model.bin)")
    lanes = stream[7]
    if not lanes:
        raise ValueError("the command stream says 0 lanes: it is damaged")
    width = lanes << min(way_bits(stream), 3)
    size = -(-DESCRIPTOR_BYTES // width) * width  # whole words
    at = size
    while at + DESCRIPTOR_BYTES <= len(stream):
        opcode, flags = stream[at], stream[at + 1]
        fields = stream[at + 2 : at + 28]
        yield opcode, flags, fields
        first, second = struct.unpack_from("<HH", fields)
        tile = lanes if flags & TRANSPOSED else width
        payload = {
            TABLE: 512 if flags & WIDE else 256,
            NORM: -(-first // lanes) * lanes * (7 if flags & SHIFTS else 6),
            LINEAR: -(-second // tile) * tile * (first + PARAMETER_PLANES),
            BIAS: fields[0] * struct.unpack_from("<H", fields, 1)[0] * 4 * lanes,
            ROTARY: first * second * 4 * lanes,
        }
        at += size + -(-payload.get(opcode, 0) // width) * width


def tokens(
    ids: Sequence[int],
    types: Sequence[int],
    attend: Sequence[int],
    lengths: Sequence[int] | None = None,
) -> bytes:
    """The words of the tokens stream: id[23:0], type[24], attend[25], ends[26].

    With `lengths` they are a batch of sequences, one after the other; each but the last is told by
    `ends` in its last word.

    Raises
    ------
    ValueError
        There is no token, the lengths differ, or a value does not fit.
    """
    if not ids:
        raise ValueError("the sequence is empty: an inference needs at least one token")
    for name, values, most in (
        ("ids", ids, (1 << 24) - 1),
        ("types", types, 1),
        ("attend", attend, 1),
    ):
        if len(values) != len(ids):
            raise ValueError(f"{len(values)} {name} for {len(ids)} ids: give one for each")
        for value in values:
            if not 0 <= value <= most:
                raise ValueError(f"{name} has {value}: it must lie in 0..{most}")
    words = [i | t << 24 | a << 25 for i, t, a in zip(ids, types, attend)]
    at = 0
    for length in _lengths(ids, lengths):
        at += length
        words[at - 1] |= (lengths is not None) << 26
    return struct.pack(f"<{len(words)}I", *words)


def _lengths(ids: Sequence[int], lengths: Sequence[int] | None) -> Sequence[int]:
    lengths = [len(ids)] if lengths is None else lengths
    if min(lengths, default=0) < 1 or sum(lengths) != len(ids):
        raise ValueError(
            f"the sequences have {list(lengths)} tokens: each needs one at least, and all together "
            f"{len(ids)}"
        )
    return lengths


def pack(lengths: Sequence[int], lanes: int, row_tiles: int) -> list[list[int]]:
    """Which sequences to send together: their places in `lengths`, by batch.

    First fit, the longest first: each sequence takes whole row tiles of `lanes` tokens, and goes
    into the first batch that has enough of its `row_tiles` left. `python -m rtl.compile` prints how
    many the model takes.

    Raises
    ------
    ValueError
        A sequence is empty, or takes more row tiles than there are.
    """
    tiles = [-(-length // lanes) for length in lengths]
    for length, needed in zip(lengths, tiles):
        if not 1 <= needed <= row_tiles:
            raise ValueError(f"a sequence has {length} tokens: it must have 1..{row_tiles * lanes}")
    batches: list[list[int]] = []
    left: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -tiles[place]):
        fits = (number for number, room in enumerate(left) if tiles[place] <= room)
        chosen = next(fits, len(batches))
        if chosen == len(batches):
            batches.append([])
            left.append(row_tiles)
        batches[chosen].append(place)
        left[chosen] -= tiles[place]
    return sorted(map(sorted, batches))


def rows(
    stream: bytes,
    table: bytes,
    ids: Sequence[int],
    types: Sequence[int],
    lengths: Sequence[int] | None = None,
) -> bytes:
    """The rows of the embedding table that the accelerator asks for, in their order.

    Two a token: that of its id, then that of its position and type. `table` is the file
    model.rows.bin that belongs to the stream. With `lengths` as `tokens`.

    Raises
    ------
    ValueError
        An id, a type or a position is beyond the table, or the table is damaged or another model's.
    """
    facts = embed(stream)
    width = facts["row_words"] * facts["lanes"]
    kinds = max(facts["types"], 1)
    expected = (facts["token_rows"] + facts["position_rows"] * kinds) * width
    if len(table) != expected:
        raise ValueError(
            f"the table has {len(table)} bytes, the command stream asks for {expected}: use the "
            "model.rows.bin that was written with it"
        )
    check_rows(stream, table)
    places: list[int] = []
    for length in _lengths(ids, lengths):
        if facts["offset"] + length > facts["position_rows"]:
            most = facts["position_rows"] - facts["offset"]
            raise ValueError(f"the sequence has {length} tokens: the model takes 1..{most}")
        places += range(length)
    found = []
    for t, i, kind in zip(places, ids, types):
        if not 0 <= i < facts["token_rows"]:
            raise ValueError(f"ids has {i}: it must lie in 0..{facts['token_rows'] - 1}")
        if not 0 <= kind < kinds:
            raise ValueError(f"types has {kind}: it must lie in 0..{kinds - 1}")
        position = facts["token_rows"] + kind * facts["position_rows"] + facts["offset"] + t
        found += [table[row * width : (row + 1) * width] for row in (i, position)]
    return b"".join(found)

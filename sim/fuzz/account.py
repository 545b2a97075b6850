"""Which error codes are right for a pair of streams: an account of the rules, apart from the RTL.

The command stream is read as docs/architecture.md describes it. Several codes may be right: the two
input streams are checked side by side, so which of two mistakes is seen first depends on pauses.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from rtl.interface.command import (
    DESCRIPTOR_BYTES,
    FIELDS,
    MAGIC,
    NORM_PLANES,
    PARAMETER_PLANES,
    TABLE_BYTES,
    VERSION,
    Flag,
    Opcode,
)
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.fuzz.job import Packets

ATTEND_BIT, TYPE_BIT, ID_MASK = 1 << 25, 1 << 24, (1 << 24) - 1


@dataclass(frozen=True)
class Descriptor:
    """One of a stream: its place, first two bytes, fields and whether `last` came in it."""

    offset: int
    opcode: int
    flags: int
    values: dict[str, int]
    crc_good: bool


@dataclass(frozen=True)
class Verdict:
    """Codes that are right, and how many logits come with code 0."""

    codes: frozenset[Error]
    logits: int


def read(data: bytes, offset: int) -> Descriptor:
    """The descriptor at `offset`; the whole of it must be there."""
    body = data[offset : offset + DESCRIPTOR_BYTES]
    values, at = {}, 2
    known = body[0] in set(Opcode)
    for field in FIELDS[Opcode(body[0])] if known else ():
        values[field.name] = int.from_bytes(body[at : at + field.bytes], "little")
        at += field.bytes
    good = zlib.crc32(data[: offset + 28]) == int.from_bytes(body[28:], "little")
    return Descriptor(offset, body[0], body[1], values, good)


def payload_bytes(descriptor: Descriptor, lanes: int) -> int:
    """Bytes after it."""
    match descriptor.opcode:
        case Opcode.TABLE:
            return TABLE_BYTES
        case Opcode.NORM:
            return -(-descriptor.values["channels"] // lanes) * NORM_PLANES * lanes
        case Opcode.LINEAR:
            words = descriptor.values["length"] + PARAMETER_PLANES
            return -(-descriptor.values["columns"] // lanes) * words * lanes
    return 0


def _header(values: dict[str, int], config: Config) -> Iterator[Error]:
    right = {"magic": MAGIC, "version": VERSION, "lanes": config.lanes}
    if any(values[name] != value for name, value in right.items()):
        yield Error.FORMAT
        return
    for name in ("hidden", "ffn", "labels"):
        if not 1 <= values[name] <= getattr(config, name):
            yield Error.LIMIT
    if not values["tokens"]:
        yield Error.LIMIT


def _limits(descriptor: Descriptor, config: Config) -> Iterator[Error]:
    """Fields that no configuration of these limits takes."""
    values, width = descriptor.values, max(config.hidden, config.ffn)
    match descriptor.opcode:
        case Opcode.NORM | Opcode.EMBED:
            wrong = not 1 <= values["channels"] <= config.hidden
        case Opcode.LINEAR:
            most = config.labels if descriptor.flags & Flag.LOGITS else 65535
            wrong = not 1 <= values["length"] <= width or not 1 <= values["columns"] <= most
        case Opcode.ATTEND:
            wrong = not values["heads"] or not 1 <= values["head_size"] <= config.hidden
        case _:
            wrong = False
    if wrong:
        yield Error.LIMIT


def stream_codes(
    model: Packets, config: Config, sound: bytes
) -> tuple[set[Error], list[Descriptor], bool]:
    """Codes of the command stream alone, its good descriptors, and whether it is `sound`'s program.

    NONE is among the codes when it may end well.
    """
    packet = model.first()
    data = packet.data if packet is not None else model.data
    ended = packet is not None
    found: list[Descriptor] = []
    offset, same = 0, True
    while True:
        if offset + DESCRIPTOR_BYTES > len(data):
            return ({Error.TRUNCATED} if ended else set()), found, same
        one = read(data, offset)
        if not one.crc_good:
            return {Error.CRC}, found, same
        last = ended and offset + DESCRIPTOR_BYTES == len(data)
        defects: set[Error] = set()
        if (not found) != (one.opcode == Opcode.HEADER) or one.opcode not in set(Opcode):
            defects.add(Error.FORMAT)
        if one.opcode == Opcode.END and not last:
            defects.add(Error.OVERRUN)
        if one.opcode != Opcode.END and last:
            defects.add(Error.TRUNCATED)
        if not defects and one.opcode == Opcode.HEADER:
            defects |= set(_header(one.values, config))
        if not defects:
            defects |= set(_limits(one, config))
        same = same and data[offset : offset + 28] == sound[offset : offset + 28]
        if defects:
            return defects, found, same
        found.append(one)
        if one.opcode == Opcode.END:
            return {Error.NONE}, found, same
        offset += DESCRIPTOR_BYTES + payload_bytes(one, config.lanes)


def token_codes(tokens: Packets, config: Config, found: list[Descriptor]) -> set[Error]:
    """Codes of the sequence, given the descriptors that were good."""
    packet = tokens.first()
    data = packet.data if packet is not None else tokens.data
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
    codes: set[Error] = set()
    model_tokens = found[0].values["tokens"] if found else config.tokens
    if len(words) > config.tokens or (packet is not None and len(words) > model_tokens):
        codes.add(Error.LENGTH)
    if packet is not None and not any(word & ATTEND_BIT for word in words):
        codes.add(Error.NO_KEY)
    if codes or packet is None:
        return codes
    for embed in found:
        if embed.opcode == Opcode.EMBED:
            rows, types = embed.values["token_rows"], embed.values["types"]
            if any(w & ID_MASK >= rows or (w & TYPE_BIT and types < 2) for w in words):
                codes.add(Error.TOKEN)
    return codes


def account(model: Packets, tokens: Packets, config: Config, sound: bytes) -> Verdict:
    """What may come of these streams when they are played to their end.

    sound
        The program of which the stream is a variation. Where descriptors differ from it although
        all their fields are allowed, the program may still be one that nobody can run.
    """
    codes, found, same = stream_codes(model, config, sound)
    if not same:
        codes |= {Error.FORMAT, Error.LIMIT, Error(10) if 10 in set(Error) else Error.NONE}
    silent = model.first() is None or tokens.first() is None
    wrong_tokens = token_codes(tokens, config, found)
    if wrong_tokens and Error.NONE in codes and same:
        codes.discard(Error.NONE)
    codes |= wrong_tokens
    if silent:
        codes.discard(Error.NONE)
        codes.add(Error.ABORTED)
    logits = [d.values["columns"] for d in found if d.flags & Flag.LOGITS and "columns" in d.values]
    return Verdict(frozenset(codes), logits[-1] if logits else 0)

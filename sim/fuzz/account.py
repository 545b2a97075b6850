"""Which error codes are right for a pair of streams: an account of the rules, apart from the RTL.

It reads whole streams as docs/architecture.md describes them. Several codes may be right:

- a descriptor may break several rules at once;
- tokens and command stream are checked side by side, so which of two mistakes is seen first depends
  on pauses;
- rows and tensors are checked while they are used, descriptors before: a later descriptor may be
  refused first.
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
from sim.fuzz.tensors import leaves_its_bank

ENDS_BIT, ATTEND_BIT, TYPE_BIT, ID_MASK = 1 << 26, 1 << 25, 1 << 24, (1 << 24) - 1
FIRST, TABLE, TRANSPOSED, RESIDUAL = Flag.FIRST_TILE, Flag.TABLE, Flag.TRANSPOSED, Flag.RESIDUAL
CHAINED, BANK, LOGITS, SHIFTS = Flag.CHAINED, Flag.BANK, Flag.LOGITS, Flag.SHIFTS
FLAGS = {
    Opcode.NORM: FIRST | RESIDUAL | CHAINED | SHIFTS,
    Opcode.LINEAR: FIRST | TABLE | TRANSPOSED | RESIDUAL | BANK | LOGITS,
    Opcode.ATTEND: FIRST,
}


@dataclass(frozen=True)
class Descriptor:
    """One of a stream."""

    offset: int
    opcode: int
    flags: int
    values: dict[str, int]
    crc_good: bool

    @property
    def is_sum(self) -> bool:
        """It writes X16 and is no NORM."""
        residual = self.opcode == Opcode.LINEAR and bool(self.flags & RESIDUAL)
        return self.opcode == Opcode.EMBED or residual


@dataclass(frozen=True)
class Verdict:
    """Codes that are right, and the logits that come with NONE: those of each packet.

    failing
        By code, the sequences of which it may be; not of a sequence, and said to be 0, are others.
    """

    codes: frozenset[Error]
    packets: tuple[int, ...]
    failing: dict[Error, set[int]]


def read(data: bytes, offset: int, padding: int) -> Descriptor:
    """The descriptor at `offset`, with so many zeros after it; the whole of it must be there."""
    body = data[offset : offset + DESCRIPTOR_BYTES]
    values, at = {}, 2
    known = body[0] in set(Opcode)
    for field in FIELDS[Opcode(body[0])] if known else ():
        values[field.name] = int.from_bytes(body[at : at + field.bytes], "little")
        at += field.bytes
    good = zlib.crc32(data[: offset + 28]) == int.from_bytes(body[28:], "little")
    good &= not any(data[offset + DESCRIPTOR_BYTES :][:padding])
    return Descriptor(offset, body[0], body[1], values, good)


def payload_bytes(descriptor: Descriptor, lanes: int) -> int:
    """Bytes after it."""
    match descriptor.opcode:
        case Opcode.TABLE:
            return TABLE_BYTES
        case Opcode.NORM:
            planes = NORM_PLANES + bool(descriptor.flags & SHIFTS)
            return -(-descriptor.values["channels"] // lanes) * planes * lanes
        case Opcode.LINEAR:
            words = descriptor.values["length"] + PARAMETER_PLANES
            return -(-descriptor.values["columns"] // lanes) * words * lanes
    return 0


def misplaced(one: Descriptor, before: list[Descriptor], config: Config) -> bool:
    """FORMAT: it is no descriptor, or none that may follow those before it."""
    if one.opcode not in set(Opcode) or one.flags & ~int(FLAGS.get(Opcode(one.opcode), Flag(0))):
        return True
    if (one.opcode == Opcode.HEADER) != (not before):
        return True
    right = {"magic": MAGIC, "version": VERSION, "lanes": config.lanes}
    if one.opcode == Opcode.HEADER:
        return any(one.values[name] != value for name, value in right.items())
    if any(b.opcode == Opcode.LINEAR and b.flags & LOGITS for b in before):
        return one.opcode != Opcode.END
    embedded = any(b.opcode == Opcode.EMBED for b in before)
    norms = [b for b in before if b.opcode == Opcode.NORM]
    since = before[max((n for n, b in enumerate(before) if b.is_sum), default=-1) + 1 :]
    waiting = [b for b in since if b.opcode == Opcode.NORM and not b.flags & CHAINED]
    # From the first sum or chained NORM of row tile 0 alone on, the others hold nothing new.
    narrow = any(
        b.flags & FIRST and (b.is_sum or (b.opcode == Opcode.NORM and b.flags & CHAINED))
        for b in before
    )
    first = bool(one.flags & FIRST)
    match one.opcode:
        case Opcode.NORM if one.flags & CHAINED:
            stored = bool(norms) and bool(norms[-1].flags & RESIDUAL)
            return bool(waiting) or not stored or (narrow and not first) or not embedded
        case Opcode.NORM:
            return bool(waiting) or (narrow and not first) or (first and not embedded)
        case Opcode.EMBED:
            return embedded or len(waiting) != 1
        case Opcode.ATTEND:
            return not embedded
        case Opcode.LINEAR:
            return not embedded or _misplaced_linear(one, before, waiting, narrow)
        case Opcode.END:
            return True
    return False


def _misplaced_linear(
    one: Descriptor, before: list[Descriptor], waiting: list[Descriptor], narrow: bool
) -> bool:
    flags = one.flags
    from_x8 = not flags & BANK
    if flags & TABLE and not any(b.opcode == Opcode.TABLE for b in before):
        return True
    if from_x8 and (waiting or (narrow and not flags & FIRST)):
        return True
    if flags & RESIDUAL:
        fits = len(waiting) == 1 and not (waiting[0].flags ^ flags) & FIRST
        return not fits or from_x8 or bool(flags & (TABLE | TRANSPOSED | LOGITS))
    return bool(flags & LOGITS) and bool(flags & (TABLE | TRANSPOSED))


def exceeds(one: Descriptor, before: list[Descriptor], config: Config) -> bool:
    """LIMIT: a field that this configuration does not take."""
    v, hidden, bank = one.values, config.hidden, config.bank_words
    offset_mask = (1 << 22) - 1

    def beyond(name: str, maximum: int) -> bool:
        return not 1 <= v[name] <= maximum

    def outside(*names: str) -> bool:
        return any(v[name] & offset_mask >= bank for name in names)

    match one.opcode:
        case Opcode.HEADER:
            return not v["tokens"] or any(
                beyond(name, getattr(config, name)) for name in ("hidden", "ffn", "labels")
            )
        case Opcode.NORM:
            return (
                beyond("channels", hidden)
                or beyond("shift", 31)
                or beyond("epsilon", (1 << 50) - 1)
            )
        case Opcode.EMBED:
            maximum = before[0].values["tokens"] if before else 0
            past = v["offset"] + maximum > v["position_rows"]
            return beyond("channels", hidden) or not v["token_rows"] or past or v["wide"] > 1
        case Opcode.ATTEND:
            return (
                not v["heads"]
                or beyond("head_size", hidden)
                or v["stride"] > bank
                or outside("query", "key", "value", "context")
                or beyond("score_s", 47)
                or beyond("context_s", 47)
            )
        case Opcode.LINEAR:
            wrong = beyond("length", max(hidden, config.ffn)) or not v["columns"] or v["shift"] > 15
            if one.flags & BANK:
                wrong |= outside("source") or v["source_stride"] > 4 * bank
            else:
                wrong |= v["length"] > hidden or v["source"] != 0 or v["source_stride"] > hidden
            if one.flags & RESIDUAL:
                wrong |= v["columns"] > hidden or v["destination_stride"] > hidden
            if one.flags & LOGITS:
                wrong |= v["columns"] > config.labels or v["destination_stride"] > config.labels
            if one.flags & (RESIDUAL | LOGITS):
                wrong |= v["destination"] != 0
            else:
                wrong |= outside("destination") or v["destination_stride"] > 4 * bank
            return wrong
    return False


def stream_codes(model: Packets, config: Config) -> tuple[set[Error], list[Descriptor]]:
    """Codes of the command stream alone, and the descriptors that act.

    NONE when all of it is good; none at all when it stops without `last` before a mistake.
    """
    packet = model.first()
    data = packet.data if packet is not None else model.data
    ended = packet is not None
    found: list[Descriptor] = []
    offset, padding = 0, -DESCRIPTOR_BYTES % config.lanes
    size = DESCRIPTOR_BYTES + padding
    while True:
        if offset + size > len(data):
            return ({Error.TRUNCATED} if ended else set()), found
        one = read(data, offset, padding)
        if not one.crc_good:
            return {Error.CRC}, found
        last = ended and offset + size == len(data)
        defects: set[Error] = set()
        if misplaced(one, found, config):
            defects.add(Error.FORMAT)
        if one.opcode == Opcode.END and not last:
            defects.add(Error.OVERRUN)
        if one.opcode != Opcode.END and last:
            defects.add(Error.TRUNCATED)
        if exceeds(one, found, config):
            defects.add(Error.LIMIT)
        if defects:
            return defects, found
        found.append(one)
        if one.opcode == Opcode.END:
            return {Error.NONE}, found
        offset += size + payload_bytes(one, config.lanes)


def token_codes(
    words: list[int], ended: bool, config: Config, found: list[Descriptor]
) -> tuple[set[Error], int]:
    """Codes of the batch, given the descriptors that act; the first sequence that is wrong."""
    maximum = found[0].values["tokens"] if found else config.tokens
    row_tiles = 0
    for number, sequence in enumerate(sequences(words)):
        row_tiles += -(-len(sequence) // config.lanes)
        if len(sequence) > config.tokens or row_tiles > config.row_tiles:
            return {Error.LENGTH}, number
        complete = ended or sequence[-1] & ENDS_BIT
        if complete and not any(word & ATTEND_BIT for word in sequence):
            return {Error.NO_KEY}, number
    lengths = [len(sequence) for sequence in sequences(words)]
    longest = max(lengths, default=0)
    wrong = ended and longest > maximum
    return {Error.LENGTH} if wrong else set(), lengths.index(longest) if wrong else 0


def sequences(words: list[int]) -> list[list[int]]:
    """The words of each sequence; the last one may not have its last word yet."""
    found: list[list[int]] = [[]]
    for word in words:
        found[-1].append(word)
        if word & ENDS_BIT:
            found.append([])
    return [sequence for sequence in found if sequence]


def use_codes(
    words: list[int], row_words: int, config: Config, found: list[Descriptor]
) -> set[Error]:
    """Codes that come while the descriptors are computed for a good sequence."""
    codes: set[Error] = set()
    lengths, gathered = [len(sequence) for sequence in sequences(words)], False
    for one in found:
        if one.opcode == Opcode.EMBED:
            rows, types = one.values["token_rows"], one.values["types"]
            if any(w & ID_MASK >= rows or (w & TYPE_BIT and types < 2) for w in words):
                codes.add(Error.TOKEN)
            if -(-one.values["channels"] // config.lanes) << one.values["wide"] != row_words:
                codes.add(Error.ROW)
        elif leaves_its_bank(one.opcode, one.flags, one.values, lengths, gathered, config):
            codes.add(Error.LIMIT)
        gathered |= (
            one.opcode == Opcode.LINEAR and one.flags & (FIRST | RESIDUAL) == FIRST | RESIDUAL
        )
    return codes


def account(model: Packets, tokens: Packets, row_words: int, config: Config) -> Verdict:
    """What may come of these streams when they are played to their end.

    row_words
        Words of a row as the memory has them.
    """
    codes, found = stream_codes(model, config)
    packet = tokens.first()
    data = packet.data if packet is not None else tokens.data
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
    wrong, number = token_codes(words, packet is not None, config, found)
    failing = {code: {number} for code in wrong}
    if packet is not None and not wrong:
        wrong = use_codes(words, row_words, config, found)
        failing[Error.TOKEN] = set(_unknown(words, found))
    if wrong:
        codes.discard(Error.NONE)
    codes |= wrong
    if model.first() is None or packet is None:
        codes.discard(Error.NONE)
        codes.add(Error.ABORTED)
    packets = tuple(_packets(found, [len(sequence) for sequence in sequences(words)]))
    return Verdict(frozenset(codes), packets, failing)


def _unknown(words: list[int], found: list[Descriptor]) -> Iterator[int]:
    """The first sequence that has an id or a type beyond the tables."""
    for one in found:
        if one.opcode == Opcode.EMBED:
            rows, types = one.values["token_rows"], one.values["types"]
            for number, sequence in enumerate(sequences(words)):
                if any(w & ID_MASK >= rows or (w & TYPE_BIT and types < 2) for w in sequence):
                    yield number
                    return


def _packets(found: list[Descriptor], lengths: list[int]) -> Iterator[int]:
    """Logits of each sequence: those of its first token, or of all."""
    for one in found:
        if one.opcode == Opcode.LINEAR and one.flags & LOGITS:
            for tokens in lengths:
                yield one.values["columns"] * (1 if one.flags & FIRST else tokens)

"""Which error codes are right for a pair of streams: an account apart from the RTL.

It reads whole streams as docs/architecture.md describes them; the rules of the command stream are
`rtl.compile.account`. Several codes may be right:

- a descriptor may break several rules at once;
- tokens and command stream are checked side by side, so which of two mistakes is seen first depends
  on pauses;
- rows and tensors are checked while they are used, descriptors before: a later descriptor may be
  refused first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rtl.compile.account import Descriptor, exceeds, misplaced, payload_bytes, read
from rtl.compile.tensors import leaves_its_bank
from rtl.interface.command import DESCRIPTOR_BYTES, Flag, Opcode
from rtl.interface.config import Config
from rtl.interface.operation import Error
from sim.machine.inference import Packets
from tb.packing import ATTEND_BIT, ENDS_BIT, ID_MASK, TYPE_BIT

GATHERS = Flag.FIRST_TILE | Flag.RESIDUAL


@dataclass(frozen=True)
class Right:
    """Codes that are right, and the logits that come with NONE: those of each packet.

    failing
        By code, the sequences of which it may be; not of a sequence, and said to be 0, are others.
    """

    codes: frozenset[Error]
    packets: tuple[int, ...]
    failing: dict[Error, set[int]]


def stream_codes(model: Packets, config: Config) -> tuple[set[Error], list[Descriptor]]:
    """Codes of the command stream alone, and the descriptors that act.

    NONE when all of it is good; none at all when it stops without `last` before a mistake.
    """
    packet = model.first()
    data = packet.data if packet is not None else model.data
    ended = packet is not None
    found: list[Descriptor] = []
    offset, padding = 0, -DESCRIPTOR_BYTES % config.stream_width
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
        if any(exceeds(one, found, config)):
            defects.add(Error.LIMIT)
        if defects:
            return defects, found
        found.append(one)
        if one.opcode == Opcode.END:
            return {Error.NONE}, found
        offset += size + payload_bytes(one, config)


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
        gathered |= one.opcode == Opcode.LINEAR and one.flags & GATHERS == GATHERS
    return codes


def account(model: Packets, tokens: Packets, row_words: int, config: Config) -> Right:
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
    return Right(frozenset(codes), packets, failing)


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
        if one.opcode == Opcode.LINEAR and one.flags & Flag.LOGITS:
            for tokens in lengths:
                yield one.values["columns"] * (1 if one.flags & Flag.FIRST_TILE else tokens)

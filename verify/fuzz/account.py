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

from dataclasses import dataclass

import numpy as np

from rtl.compile.account import State
from rtl.interface.command import DESCRIPTOR_BYTES, Descriptor, read
from rtl.interface.config import Config
from rtl.interface.isa import Flag, Opcode
from rtl.interface.operation import Error
from sim.machine.inference import Packets
from tb.packing import ATTEND_BIT, ENDS_BIT, ID_MASK, TYPE_BIT
from verify.fuzz.tensors import leaves_its_bank

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
    state = State(config)
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
        if state.misplaced(one):
            defects.add(Error.FORMAT)
        if one.opcode == Opcode.END and not last:
            defects.add(Error.OVERRUN)
        if one.opcode != Opcode.END and last:
            defects.add(Error.TRUNCATED)
        if any(state.exceeds(one)):
            defects.add(Error.LIMIT)
        if defects:
            return defects, found
        state.accept(one)
        found.append(one)
        if one.opcode == Opcode.END:
            return {Error.NONE}, found
        offset += size + one.payload_bytes(config.lanes, config.stream_width)


def token_codes(
    batch: list[list[int]], ended: bool, config: Config, found: list[Descriptor]
) -> tuple[set[Error], int]:
    """Codes of the batch, given the descriptors that act; the first sequence that is wrong."""
    maximum = found[0].values["tokens"] if found else config.tokens
    row_tiles = 0
    for number, sequence in enumerate(batch):
        row_tiles += -(-len(sequence) // config.lanes)
        if len(sequence) > config.tokens or row_tiles > config.row_tiles:
            return {Error.LENGTH}, number
        complete = ended or sequence[-1] & ENDS_BIT
        if complete and not any(word & ATTEND_BIT for word in sequence):
            return {Error.NO_KEY}, number
    lengths = [len(sequence) for sequence in batch]
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
    batch: list[list[int]], row_words: int, config: Config, found: list[Descriptor]
) -> dict[Error, set[int]]:
    """Codes that come while the descriptors are computed for a good batch, and the sequences of
    which they may be."""
    codes: dict[Error, set[int]] = {}
    lengths, gathered = [len(sequence) for sequence in batch], False
    for one in found:
        if one.opcode == Opcode.EMBED:
            rows, types = one.values["token_rows"], one.values["types"]
            for number, sequence in enumerate(batch):  # the first that is beyond the tables
                if any(w & ID_MASK >= rows or (w & TYPE_BIT and types < 2) for w in sequence):
                    codes.setdefault(Error.TOKEN, {number})
            if -(-one.values["channels"] // config.lanes) << one.values["wide"] != row_words:
                codes[Error.ROW] = {0}
        elif leaves_its_bank(one, lengths, gathered, config):
            codes[Error.LIMIT] = {0}
        gathered |= one.opcode == Opcode.LINEAR and GATHERS in one.flags
    return codes


def account(model: Packets, tokens: Packets, row_words: int, config: Config) -> Right:
    """What may come of these streams when they are played to their end.

    row_words
        Words of a row as the memory has them.
    """
    codes, found = stream_codes(model, config)
    packet = tokens.first()
    batch = sequences(np.frombuffer((packet or tokens).data, "<u4").tolist())
    wrong, number = token_codes(batch, packet is not None, config, found)
    failing = {code: {number} for code in wrong}
    if packet is not None and not wrong:
        failing = use_codes(batch, row_words, config, found)
    if failing:
        codes.discard(Error.NONE)
    codes |= set(failing)
    if model.first() is None or packet is None:
        codes.discard(Error.NONE)
        codes.add(Error.ABORTED)
    logits = (one for one in found if one.opcode == Opcode.LINEAR and Flag.LOGITS in one.flags)
    packets = tuple(
        one.values["columns"] * (1 if Flag.FIRST_TILE in one.flags else len(sequence))
        for one in logits
        for sequence in batch
    )
    return Right(frozenset(codes), packets, failing)

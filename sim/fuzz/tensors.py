"""Which words of the activation banks a descriptor uses, for sequences of any lengths."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from rtl.interface.command import Flag, Opcode
from rtl.interface.config import Config

OFFSET_BITS = 22


def leaves_its_bank(
    opcode: int,
    flags: int,
    values: dict[str, int],
    lengths: list[int],
    gathered: bool,
    config: Config,
) -> bool:
    """A tensor of the descriptor does not stay in the bank that its address names.

    Nor do logits of every token in their memory. A tensor that begins in bank 0 by a LINEAR without
    TRANSPOSED may run on through all four banks.

    lengths, gathered
        Tokens of each sequence; a sum before this one has gathered the first of each.
    """
    if opcode == Opcode.LINEAR and flags & Flag.LOGITS and not flags & Flag.FIRST_TILE:
        row_tiles = sum(-(-tokens // config.lanes) for tokens in lengths)
        room = config.labels * -(-config.row_tiles // config.lanes)
        if (row_tiles - 1) * values["destination_stride"] + values["columns"] > room:
            return True
    for address, last in _extents(opcode, flags, values, lengths, gathered, config.lanes):
        bank, offset = address >> OFFSET_BITS, address & (1 << OFFSET_BITS) - 1
        spans = opcode == Opcode.LINEAR and not flags & Flag.TRANSPOSED and bank == 0
        if offset + last >= config.bank_words * (4 if spans else 1):
            return True
    return False


def _extents(
    opcode: int, flags: int, v: dict[str, int], lengths: list[int], gathered: bool, n: int
) -> Iterator[tuple[int, int]]:
    """Address of each tensor, and how far behind it its last word lies."""
    *begins, row_tiles = accumulate((-(-tokens // n) for tokens in lengths), initial=0)
    first = bool(flags & Flag.FIRST_TILE)
    # The last row tile that is computed, and how many tokens it has.
    last_row, present = row_tiles - 1, (lengths[-1] - 1) % n + 1
    if first:
        last_row, present = begins[-1], min(n, lengths[-1])
    if opcode == Opcode.LINEAR:
        if first and gathered:
            last_row, present = (len(lengths) - 1) // n, (len(lengths) - 1) % n + 1
        if flags & Flag.BANK:
            yield v["source"], last_row * v["source_stride"] + v["length"] - 1
        if flags & Flag.TRANSPOSED:
            column_tiles = -(-v["columns"] // n)
            place = ((column_tiles - 1) * row_tiles + last_row) * n
            yield v["destination"], place + present - 1
        elif not flags & (Flag.RESIDUAL | Flag.LOGITS):
            yield v["destination"], last_row * v["destination_stride"] + v["columns"] - 1
    if opcode == Opcode.ATTEND:
        inner = v["heads"] * v["head_size"]
        yield v["query"], last_row * v["stride"] + inner - 1
        yield v["context"], last_row * v["stride"] + inner - 1
        yield v["key"], (row_tiles - 1) * v["stride"] + inner - 1
        column_tiles = v["heads"] * -(-v["head_size"] // n)
        place = ((column_tiles - 1) * row_tiles + begins[-1]) * n
        yield v["value"], place + lengths[-1] - 1

"""Which words of the activation banks a descriptor uses, for a sequence of any length."""

from __future__ import annotations

from collections.abc import Iterator

from rtl.interface.command import Flag, Opcode
from rtl.interface.config import Config

OFFSET_BITS = 22


def leaves_its_bank(
    opcode: int, flags: int, values: dict[str, int], tokens: int, config: Config
) -> bool:
    """A tensor of the descriptor does not stay in the bank that its address names.

    One that begins in bank 0 by a LINEAR without TRANSPOSED may run on through all four.
    """
    for address, last in _extents(opcode, flags, values, tokens, config):
        bank, offset = address >> OFFSET_BITS, address & (1 << OFFSET_BITS) - 1
        spans = opcode == Opcode.LINEAR and not flags & Flag.TRANSPOSED and bank == 0
        if offset + last >= config.bank_words * (4 if spans else 1):
            return True
    return False


def _extents(
    opcode: int, flags: int, v: dict[str, int], tokens: int, config: Config
) -> Iterator[tuple[int, int]]:
    """Address of each tensor, and how far behind it its last word lies."""
    n = config.lanes
    row_tiles = -(-tokens // n)
    rows = 1 if flags & Flag.FIRST_TILE else row_tiles
    if opcode == Opcode.LINEAR:
        if flags & Flag.BANK:
            yield v["source"], (rows - 1) * v["source_stride"] + v["length"] - 1
        if flags & Flag.TRANSPOSED:
            column_tiles = -(-v["columns"] // n)
            last_token = min(n, tokens - (rows - 1) * n) - 1
            yield v["destination"], ((column_tiles - 1) * row_tiles + rows - 1) * n + last_token
        elif not flags & (Flag.RESIDUAL | Flag.LOGITS):
            yield v["destination"], (rows - 1) * v["destination_stride"] + v["columns"] - 1
    if opcode == Opcode.ATTEND:
        inner = v["heads"] * v["head_size"]
        yield v["query"], (rows - 1) * v["stride"] + inner - 1
        yield v["context"], (rows - 1) * v["stride"] + inner - 1
        yield v["key"], (row_tiles - 1) * v["stride"] + inner - 1
        column_tiles = v["heads"] * -(-v["head_size"] // n)
        yield v["value"], (column_tiles - 1) * row_tiles * n + tokens - 1

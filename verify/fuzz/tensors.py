"""Whether tensors of a descriptor stay in the activation banks, for sequences of any length."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from rtl.interface.command import BANK_SHIFT, Descriptor
from rtl.interface.config import BANKS, Config, ceil_div
from rtl.interface.isa import Flag, Opcode


def leaves_its_bank(one: Descriptor, lengths: list[int], gathered: bool, config: Config) -> bool:
    """A tensor of the descriptor does not stay in the bank that its address names.

    Nor do logits of every token in their memory. A tensor that begins in bank 0 by a LINEAR without
    TRANSPOSED may run on through all four banks.

    lengths, gathered
        Tokens of each sequence; a sum before this one has gathered the first of each.
    """
    flags, v = one.flags, one.values
    if Flag.LOGITS in flags and Flag.FIRST_TILE not in flags:
        row_tiles = sum(ceil_div(tokens, config.lanes) for tokens in lengths)
        if (row_tiles - 1) * v["destination_stride"] + v["columns"] > config.logit_words:
            return True
    spans = one.opcode == Opcode.LINEAR and Flag.TRANSPOSED not in flags
    for address, words in _ends(one, lengths, gathered, config):
        bank, offset = address >> BANK_SHIFT, address & (1 << BANK_SHIFT) - 1
        if offset + words > config.bank_words * (BANKS if spans and bank == 0 else 1):
            return True
    return False


def _ends(
    one: Descriptor, lengths: list[int], gathered: bool, config: Config
) -> Iterator[tuple[int, int]]:
    """What it reads and writes in the banks: address, and words up to the end in the fullest way.

    Lines (row tiles, or tiles of the channels of V) lie in the ways in turn, `stride` apart.
    """
    n, ways, flags, v = config.lanes, config.ways, one.flags, one.values
    *begins, row_tiles = accumulate((ceil_div(tokens, n) for tokens in lengths), initial=0)
    last = begins[-1] if Flag.FIRST_TILE in flags else row_tiles - 1

    def end(line: int, stride: int, words: int) -> int:
        return line // ways * stride + words

    if one.opcode == Opcode.LINEAR:
        tail = lengths[-1] - (row_tiles - 1 - begins[-1]) * n  # tokens of the last row tile
        if Flag.FIRST_TILE in flags:
            tail = min(n, lengths[-1])
        if Flag.FIRST_TILE in flags and gathered:
            last = ceil_div(len(lengths), n) - 1
            tail = len(lengths) - last * n
        elif Flag.TRANSPOSED in flags and ways > 1:
            last = row_tiles - 1  # whole groups of them
        if Flag.BANK in flags:
            yield v["source"], end(last, v["source_stride"], v["length"])
        if Flag.TRANSPOSED in flags:
            tiles = ceil_div(v["columns"], n)
            words = last * n + (tail if ways == 1 else n)
            yield v["destination"], end(tiles - 1, row_tiles * n, words)
        elif not flags & (Flag.RESIDUAL | Flag.LOGITS):
            yield v["destination"], end(last, v["destination_stride"], v["columns"])
    if one.opcode == Opcode.ATTEND:
        inner, tiles = v["heads"] * v["head_size"], v["heads"] * ceil_div(v["head_size"], n)
        of_rows = end(last, v["stride"], inner)
        yield v["query"], of_rows
        yield v["key"], end(row_tiles - 1, v["stride"], inner)
        yield v["value"], end(tiles - 1, row_tiles * n, begins[-1] * n + lengths[-1])
        yield v["context"], of_rows

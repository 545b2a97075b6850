"""Which words of the activation banks a descriptor uses, for sequences of any lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from rtl.interface.command import BANK_SHIFT, Flag, Opcode
from rtl.interface.config import Config, ceil_div


class Area(NamedTuple):
    """A tensor in the banks: the field with its address, and its parts as (way, offset, words).

    spans
        It may run on through all four banks.
    """

    field: str
    address: int
    parts: list[tuple[int, int, int]]
    written: bool
    spans: bool

    @property
    def bank(self) -> int:
        return self.address >> BANK_SHIFT

    @property
    def offset(self) -> int:
        return self.address & (1 << BANK_SHIFT) - 1

    def leaves(self, bank_words: int) -> bool:
        """Some word lies outside."""
        end = self.offset + max(offset + words for _, offset, words in self.parts)
        return end > bank_words * (4 if self.spans else 1)


def leaves_its_bank(
    opcode: int,
    flags: int,
    values: Mapping[str, int],
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
        row_tiles = sum(ceil_div(tokens, config.lanes) for tokens in lengths)
        if (row_tiles - 1) * values["destination_stride"] + values["columns"] > config.logit_words:
            return True
    found = areas(opcode, flags, values, lengths, gathered, config)
    return any(area.leaves(config.bank_words) for area in found)


def areas(
    opcode: int,
    flags: int,
    v: Mapping[str, int],
    lengths: list[int],
    gathered: bool,
    config: Config,
) -> Iterator[Area]:
    """What a descriptor reads and writes in the banks."""
    n, ways = config.lanes, config.ways
    *begins, row_tiles = accumulate((ceil_div(tokens, n) for tokens in lengths), initial=0)
    tokens_of = [
        min(n, tokens - row * n) for tokens in lengths for row in range(ceil_div(tokens, n))
    ]

    def line(number: int, stride: int, words: int, first: int = 0) -> tuple[int, int, int]:
        """Lines lie in the ways in turn: way, and where in it."""
        return number % ways, number // ways * stride + first, words

    rows = list(begins if flags & Flag.FIRST_TILE else range(row_tiles))
    if opcode == Opcode.LINEAR:
        if flags & Flag.FIRST_TILE and gathered:
            rows = list(range(ceil_div(len(lengths), n)))
            tokens_of = [min(n, len(lengths) - row * n) for row in rows]
        elif flags & Flag.TRANSPOSED and ways > 1:
            rows = list(range(row_tiles))  # whole groups of them
        if ways > 1:
            tokens_of = [n] * row_tiles

        def area(name: str, parts: list[tuple[int, int, int]]) -> Area:
            spans = not flags & Flag.TRANSPOSED and v[name] >> BANK_SHIFT == 0
            return Area(name, v[name], parts, name == "destination", spans)

        if flags & Flag.BANK:
            yield area("source", [line(row, v["source_stride"], v["length"]) for row in rows])
        if flags & Flag.TRANSPOSED:
            tiles = range(ceil_div(v["columns"], n))
            parts = [line(t, row_tiles * n, tokens_of[row], row * n) for t in tiles for row in rows]
            yield area("destination", parts)
        elif not flags & (Flag.RESIDUAL | Flag.LOGITS):
            parts = [line(row, v["destination_stride"], v["columns"]) for row in rows]
            yield area("destination", parts)
    if opcode == Opcode.ATTEND:
        inner = v["heads"] * v["head_size"]
        column_tiles = v["heads"] * ceil_div(v["head_size"], n)
        some, every = (
            [line(row, v["stride"], inner) for row in which] for which in (rows, range(row_tiles))
        )
        values = [
            line(tile, row_tiles * n, tokens, begin * n)
            for tile in range(column_tiles)
            for begin, tokens in zip(begins, lengths)
        ]
        yield Area("query", v["query"], some, False, False)
        yield Area("key", v["key"], every, False, False)
        yield Area("value", v["value"], values, False, False)
        yield Area("context", v["context"], some, True, False)

"""The instruction set: per opcode its flags and fields, with the option and the limits of each.

Encoder, decoder, the rules in hardware and in software, the listing and the tables of
docs/architecture.md read this. Limits that depend on flags or on other descriptors are code, in
`rtl.control.rules` and `rtl.compile.account`.
"""

from __future__ import annotations

import enum
from functools import cache, reduce
from operator import or_
from typing import NamedTuple

from cli.errors import UserError

from golden.model import EPSILON_MAX
from golden.requantize import SHIFT_MAX
from rtl.interface.config import Config
from rtl.interface.mechanisms import HEADS_MAX

NORM_SHIFT_MAX = 31
RESIDUAL_SHIFT_MAX = 15


class Opcode(enum.IntEnum):
    """The operation of a descriptor."""

    HEADER = 1
    TABLE = 2
    NORM = 3
    EMBED = 4
    LINEAR = 5
    ATTEND = 6
    END = 7
    BIAS = 8
    ROTARY = 9


class Flag(enum.Flag):
    """Choices of an operation, by name; `BITS` and `FLAGS` say where a descriptor has them."""

    FIRST_TILE = enum.auto()
    TABLE = enum.auto()
    TRANSPOSED = enum.auto()
    RESIDUAL = enum.auto()
    CHAINED = enum.auto()
    WIDE = enum.auto()
    BIAS = enum.auto()
    BANK = enum.auto()
    WINDOW = enum.auto()
    LOGITS = enum.auto()
    GATED = enum.auto()
    RMS = enum.auto()
    SHIFTS = enum.auto()
    ROTARY = enum.auto()


NO_FLAGS = Flag(0)

BITS = {
    Flag.FIRST_TILE: 0,
    Flag.TABLE: 1,
    Flag.TRANSPOSED: 2,
    Flag.RESIDUAL: 3,
    **dict.fromkeys((Flag.CHAINED, Flag.WIDE, Flag.BIAS), 4),
    **dict.fromkeys((Flag.BANK, Flag.WINDOW), 5),
    **dict.fromkeys((Flag.LOGITS, Flag.GATED, Flag.RMS), 6),
    **dict.fromkeys((Flag.SHIFTS, Flag.ROTARY), 7),
}
"""The bit of byte 1 of a descriptor; no opcode has two flags of one bit."""

HEADER_WAYS = 0b1111
"""Bits of byte 1 of a HEADER that are log2 of columns a lane, M / N."""

FLAGS: dict[Opcode, dict[Flag, str]] = {
    Opcode.HEADER: {
        Flag.BIAS: "a BIAS follows",
        Flag.WINDOW: "some ATTEND has it",
        Flag.GATED: "some LINEAR has a gate",
        Flag.ROTARY: "a ROTARY follows, behind the BIAS where there is one",
    },
    Opcode.TABLE: {Flag.WIDE: "results have 16 bits: a table of the low halves follows"},
    Opcode.NORM: {
        Flag.FIRST_TILE: "the first tokens only (above)",
        Flag.RESIDUAL: "also writes its int16 output to X16 (post-norm)",
        Flag.CHAINED: "reads what the previous NORM has written to X16, instead of a sum",
        Flag.RMS: "the mean is taken as 0; at most 1,023 channels",
        Flag.SHIFTS: "each channel of X8 has its own shift; without it all are 8",
    },
    Opcode.EMBED: {},
    Opcode.LINEAR: {
        Flag.FIRST_TILE: "the first tokens only (above)",
        Flag.TABLE: "the int8 result goes through the latest TABLE",
        Flag.TRANSPOSED: "weights are operand A: the result is V, its channels across the lanes",
        Flag.RESIDUAL: "adds to X16",
        Flag.WIDE: "activations have 16 bits and take two passes",
        Flag.BANK: "operand A comes from the activation banks, not from X8",
        Flag.LOGITS: "the accumulators are the logits: with FIRST_TILE those of the first tokens, "
        "without it those of every token",
        Flag.ROTARY: "pairs of columns are turned by their positions",
    },
    Opcode.ATTEND: {
        Flag.FIRST_TILE: "the first tokens only (above)",
        Flag.BIAS: "the scores get the position bias",
        Flag.WINDOW: "queries see the keys of `window`",
    },
    Opcode.END: {},
    Opcode.BIAS: {},
    Opcode.ROTARY: {},
}
"""The flags that an opcode has, with what each asks for; any other set bit is refused."""

FLAG_NEEDS = {
    Flag.WIDE: "precise",
    Flag.BIAS: "bias_heads",
    Flag.GATED: "gated",
    Flag.ROTARY: "rotary_pairs",
}
"""The option of `Config` without which hardware does not have a flag."""

OPCODE_NEEDS = {Opcode.BIAS: "bias_heads", Opcode.ROTARY: "rotary_pairs"}
"""The option of `Config` without which hardware does not have an opcode."""


class Field(NamedTuple):
    """A field of a descriptor: name, width in bytes, and the values that hardware takes.

    high
        A number, an attribute of `Config`, `ADDRESS`: an offset within a bank; or any.
    """

    name: str
    bytes: int
    low: int = 0
    high: int | str = ""

    def highest(self, config: Config) -> int:
        """The largest value that hardware takes."""
        high = getattr(config, self.high) if self.high and isinstance(self.high, str) else self.high
        return int(high or (1 << 8 * self.bytes) - 1)


ADDRESS = "bank"
"""An address of the activation banks whose offset lies within the bank."""

FIELDS: dict[Opcode, tuple[Field, ...]] = {
    Opcode.HEADER: (
        Field("magic", 4),
        Field("version", 1),
        Field("lanes", 1),
        Field("tokens", 2, 1),  # longest sequence that the model and its buffers take
        Field("hidden", 2, 1, "hidden"),
        Field("ffn", 2, 1, "ffn"),
        Field("labels", 2, 1, "labels"),
        Field("rows", 4),  # CRC-32 of the embedding table's rows; hardware reads neither
        Field("model", 8),  # which model it is: `golden.identity`, the first byte the lowest
    ),
    Opcode.TABLE: (),
    Opcode.NORM: (
        Field("channels", 2, 1, "hidden"),
        Field("shift", 1, 1, NORM_SHIFT_MAX),
        Field("epsilon", 7, 1, EPSILON_MAX),
    ),
    Opcode.EMBED: (
        Field("token_factor", 1),
        Field("position_factor", 1),
        Field("channels", 2, 1, "hidden"),
        Field("token_rows", 3, 1),  # rows of the token table: the ids must be below
        Field("position_rows", 2),  # rows of the position table of one type
        Field("offset", 2),  # position of the first token
        Field("types", 1),  # types above it are refused; 0 and 1 take type 0 only
        Field("wide", 1, 0, 1),  # a value has 16 bits, a word of high and one of low bytes
    ),
    Opcode.LINEAR: (
        Field("length", 2, 1, "widest"),  # K
        Field("columns", 2, 1),  # output channels (TRANSPOSED: a multiple of N)
        Field("source", 3),  # of row tile 0, channel 0: in X8, or a `bank_address`
        Field("source_stride", 2),  # words a row tile
        Field("destination", 3),  # in X16 (RESIDUAL), the logits (LOGITS), or a `bank_address`
        Field("destination_stride", 2),
        Field("shift", 1, 0, RESIDUAL_SHIFT_MAX),  # RESIDUAL: of X16 before the addition
        Field("head_size", 2),  # ROTARY: channels after which the pairs begin anew, even; else 0
        Field("rotary", 2),  # ROTARY: the pair of the tables that a head's first channels take
        Field("gate", 1),  # with GATED of the HEADER: round_shift of the product; 0: none
    ),
    Opcode.ATTEND: (
        Field("heads", 1, 1, HEADS_MAX),
        Field("head_size", 2, 1, "hidden"),
        Field("stride", 2, 0, "bank_words"),  # words a row tile of Q, K and the context
        Field("query", 3, 0, ADDRESS),
        Field("key", 3, 0, ADDRESS),
        Field("value", 3, 0, ADDRESS),
        Field("context", 3, 0, ADDRESS),
        Field("score_m", 2),
        Field("score_s", 1, 1, SHIFT_MAX),
        Field("context_m", 2),
        Field("context_s", 1, 1, SHIFT_MAX),
        Field("window", 3),  # with WINDOW, see `rtl.interface.command.window_field`; else 0
    ),
    Opcode.END: (),
    Opcode.BIAS: (
        Field("heads", 1, 1, "bias_heads"),
        Field("row_tiles", 2, 1, "row_tiles"),  # R: keys of N R tokens, before and behind a query
    ),
    Opcode.ROTARY: (
        Field("pairs", 2, 1, "rotary_pairs"),  # of all tables together
        Field("row_tiles", 2, 1, "row_tiles"),  # R: the positions of N R tokens
    ),
}


@cache
def known_bits(config: Config) -> dict[Opcode, int]:
    """The opcodes that this hardware has, and the bits of byte 1 that each may have."""

    def has(option: str) -> bool:
        return not option or bool(getattr(config, option))

    found = {
        opcode: sum(1 << BITS[flag] for flag in flags if has(FLAG_NEEDS.get(flag, "")))
        for opcode, flags in FLAGS.items()
        if has(OPCODE_NEEDS.get(opcode, ""))
    }
    found[Opcode.HEADER] |= config.way_bits
    return found


def flags_byte(opcode: Opcode, flags: Flag) -> int:
    """The flags as byte 1 of a descriptor of this opcode.

    Raises
    ------
    ValueError
        The opcode does not have one of them.
    """
    for flag in flags:
        if flag not in FLAGS[opcode]:
            raise UserError(f"{opcode.name} does not have the flag {flag.name}")
    return sum(1 << BITS[flag] for flag in flags)


@cache
def flags_of(opcode: int, byte: int) -> Flag:
    """The flags of a descriptor by its byte 1; bits that are none of the opcode's are left out."""
    known = FLAGS[Opcode(opcode)] if opcode in set(Opcode) else ()
    return reduce(or_, (flag for flag in known if byte >> BITS[flag] & 1), NO_FLAGS)


def flag_table() -> str:
    """The flags as a table for docs/architecture.md."""
    rows = ["| opcode | flag | bit | only with | meaning |", "| --- | --- | ---: | --- | --- |"]
    for opcode, flags in FLAGS.items():
        for flag, meaning in flags.items():
            needs = FLAG_NEEDS.get(flag, "").replace("_", "-")
            option = f"`--{needs}`" if needs else ""
            rows.append(
                f"| {opcode.name} | {flag.name} | {1 << BITS[flag]} | {option} | {meaning} |"
            )
    return "\n".join(rows) + "\n"

"""Bundles between the units of the data path: scores, probabilities, sums, logits."""

from __future__ import annotations

from amaranth.hdl import ShapeLike, signed, unsigned
from amaranth.lib import data

from rtl.interface.config import Config
from rtl.interface.tile import NORM_INDEX_BITS, address_bits
from rtl.interface.word import activation_word, int16_word
from rtl.primitives.members import Bundle, In, Out


class ScoreColumn(Bundle):
    """A column of scores: one key of N queries."""

    def __init__(self, lanes: int, tokens: int, places: int) -> None:
        super().__init__(
            en=Out(1, "The others are valid."),
            buffer=Out(1, "Half of the softmax's double buffers."),
            first=Out(1, "First and last key of this row tile."),
            last=Out(1, ...),
            key=Out(range(tokens), "Of the sequence; increases within a row tile."),
            place=Out(range(places), "Of the key, for its attend bit."),
            data=Out(int16_word(lanes), "In 1/256 octaves."),
            seen=Out(lanes, "A bit for each lane whose query has the key in its window."),
        )


class BiasPlace(Bundle):
    """Where the position bias of a column of scores lies."""

    def __init__(self, lanes: int, heads: int, head_words: int) -> None:
        super().__init__(
            head=Out(range(max(heads, 2))),  # one bit at least
            word=Out(
                range(head_words), "Row tile of the key less that of the queries, modulo these."
            ),
            column=Out(range(lanes), "The key's place in its row tile."),
        )


class RowScales(Bundle):
    """The multipliers of a row tile's queries, from their reader."""

    def __init__(self, lanes: int) -> None:
        super().__init__(
            buffer=Out(1, "Which half of the softmax."),
            m=In(
                data.ArrayLayout(unsigned(16), lanes),
                "In the same cycle; from the pass's `finished` to the half's next.",
            ),
            s=In(data.ArrayLayout(unsigned(6), lanes), ...),
        )


class ProbabilityRead(Bundle):
    """Reads p of a key, from the reader."""

    def __init__(self, lanes: int, tokens: int) -> None:
        super().__init__(
            address=Out(range(tokens), "Key and half."),
            buffer=Out(1, ...),
            data=In(data.ArrayLayout(unsigned(8), lanes), "`Memory.latency` cycles later."),
        )


class SharedRead(Bundle):
    """Read port of a memory that others read too."""

    def __init__(self, address: ShapeLike, lanes: int) -> None:
        super().__init__(
            busy=In(1, "No read in this cycle: en stays low."),
            en=Out(1, "A read."),
            address=Out(address, ...),
            data=In(int16_word(lanes), "`Memory.latency` cycles after en."),
        )


class ResidualAccess(Bundle):
    """The epilogue's use of X16; it has precedence."""

    def __init__(self, config: Config) -> None:
        address, word = address_bits(config), int16_word(config.lanes)
        super().__init__(
            read_en=Out(1, "A read."),
            read_address=Out(address, ...),
            read_data=In(word, "`Memory.latency` cycles after read_en."),
            write_en=Out(1, "A write, of the lanes whose bit is set."),
            write_lanes=Out(config.lanes, ...),
            write_address=Out(address, ...),
            write_data=Out(word, ...),
            busy=Out(
                1,
                "Nobody else reads: read_en, or the write_en of the cycle that is the epilogue's "
                "`ahead` cycles away.",
            ),
        )


class GateRead(Bundle):
    """The epilogue's read of a word of the activation banks; nobody else reads them then."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            en=Out(1),
            address=Out(address_bits(config)),
            way=Out(range(config.ways), "With several ways."),
            data=In(
                activation_word(config.lanes, config.precise), "`Memory.latency` cycles later."
            ),
        )


class NormProgress(Bundle):
    """Progress of the normalizer."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            norms=Out(NORM_INDEX_BITS, "NORMs finished, modulo 2^`NORM_INDEX_BITS`."),
            rows=Out(range(config.row_tiles + 1), "Row tiles finished of the current one, or 0."),
        )


class LogitWrite(Bundle):
    """A logit of N sequences, of one of them, or of N tokens."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            en=Out(1),
            lanes=Out(
                config.lanes,
                "Those whose logit it is: sequence s of the batch is lane s modulo N; of the "
                "logits of every token a row tile's are its lanes.",
            ),
            index=Out(range(config.logit_words), "(s div N or row tile) * stride + label."),
            value=Out(data.ArrayLayout(signed(32), config.lanes)),
        )

"""Bundles between the units of the data path: scores, probabilities, sums, logits."""

from __future__ import annotations

from amaranth.hdl import ShapeLike, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.interface.config import Config
from rtl.interface.tile import NORM_INDEX_BITS, address_bits
from rtl.interface.word import activation_word, int16_word


class ScoreColumn(wiring.Signature):
    """A column of scores: one key of N queries.

    Members
    -------
    en : Out
        The others are valid.
    buffer : Out
        Half of the softmax's double buffers.
    first, last : Out
        First and last key of this row tile.
    key : Out
        Of the sequence; increases within a row tile.
    place : Out
        Of the key, for its attend bit.
    data : Out, Array(signed(16))
        In 1/256 octaves.
    seen : Out
        With windows: a bit for each lane whose query has the key in its window.
    """

    def __init__(self, lanes: int, tokens: int, places: int, windows: bool = False) -> None:
        super().__init__(
            {
                "en": Out(1),
                "buffer": Out(1),
                "first": Out(1),
                "last": Out(1),
                "key": Out(range(tokens)),
                "place": Out(range(places)),
                "data": Out(int16_word(lanes)),
                **({"seen": Out(lanes)} if windows else {}),
            }
        )


class BiasPlace(wiring.Signature):
    """Where the position bias of a column of scores lies.

    Members
    -------
    head : Out
    word : Out
        Row tile of the key less that of the queries, modulo the words of a head.
    column : Out
        The key's place in its row tile.
    """

    def __init__(self, lanes: int, heads: int, head_words: int) -> None:
        super().__init__(
            {
                "head": Out(range(max(heads, 2))),  # one bit at least
                "word": Out(range(head_words)),
                "column": Out(range(lanes)),
            }
        )


class RowScales(wiring.Signature):
    """The multipliers of a row tile's queries, from their reader.

    Members
    -------
    buffer : Out
        Which half of the softmax.
    m, s : In
        Of each lane, in the same cycle; valid from the pass's `finished` on until the next of the
        same half.
    """

    def __init__(self, lanes: int) -> None:
        super().__init__(
            {
                "buffer": Out(1),
                "m": In(data.ArrayLayout(unsigned(16), lanes)),
                "s": In(data.ArrayLayout(unsigned(6), lanes)),
            }
        )


class ProbabilityRead(wiring.Signature):
    """Reads p of a key, from the reader.

    Members
    -------
    address, buffer : Out
        Key and half.
    data : In, Array(unsigned(8))
        `Memory.latency` cycles later; valid from the pass's `finished` on.
    """

    def __init__(self, lanes: int, tokens: int) -> None:
        super().__init__(
            {
                "address": Out(range(tokens)),
                "buffer": Out(1),
                "data": In(data.ArrayLayout(unsigned(8), lanes)),
            }
        )


class SharedRead(wiring.Signature):
    """Read port of a memory that others read too.

    Members
    -------
    busy : In
        No read in this cycle: en stays low.
    en, address : Out
        A read.
    data : In, Array(signed(16))
        `Memory.latency` cycles after en.
    """

    def __init__(self, address: ShapeLike, lanes: int) -> None:
        super().__init__(
            {"busy": In(1), "en": Out(1), "address": Out(address), "data": In(int16_word(lanes))}
        )


class ResidualAccess(wiring.Signature):
    """The epilogue's use of X16; it has precedence.

    Members
    -------
    read_en, read_address : Out
        A read.
    read_data : In
        `Memory.latency` cycles after read_en.
    write_en, write_lanes, write_address, write_data : Out
        A write, of the lanes whose bit is set.
    busy : Out
        Nobody else reads: read_en, or the write_en of the cycle that is the epilogue's `ahead`
        cycles away.
    """

    def __init__(self, config: Config) -> None:
        address, word = address_bits(config), int16_word(config.lanes)
        super().__init__(
            {
                "read_en": Out(1),
                "read_address": Out(address),
                "read_data": In(word),
                "write_en": Out(1),
                "write_lanes": Out(config.lanes),
                "write_address": Out(address),
                "write_data": Out(word),
                "busy": Out(1),
            }
        )


class GateRead(wiring.Signature):
    """The epilogue's read of a word of the activation banks; nobody else reads them then.

    Members
    -------
    en, address : Out
    way : Out
        With several ways.
    data : In
        `Memory.latency` cycles later.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "en": Out(1),
                "address": Out(address_bits(config)),
                **({"way": Out(range(config.ways))} if config.ways > 1 else {}),
                "data": In(activation_word(config.lanes, config.precise)),
            }
        )


class NormProgress(wiring.Signature):
    """Progress of the normalizer.

    Members
    -------
    norms : Out
        NORMs finished, modulo 2^`NORM_INDEX_BITS`.
    rows : Out
        Row tiles finished of the one in hand, 0 without one.
    """

    def __init__(self, config: Config) -> None:
        super().__init__({"norms": Out(NORM_INDEX_BITS), "rows": Out(range(config.row_tiles + 1))})


class LogitWrite(wiring.Signature):
    """A logit of N sequences, of one of them, or of N tokens.

    Members
    -------
    en : Out
    lanes : Out
        Those whose logit it is: sequence s of the batch is lane s modulo N; of the logits of every
        token a row tile's are its lanes.
    index : Out
        (s div N) * stride + label, or row tile * stride + label, see `LogitLayout`.
    value : Out, Array(signed(32))
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "en": Out(1),
                "lanes": Out(config.lanes),
                "index": Out(range(config.logit_words)),
                "value": Out(data.ArrayLayout(signed(32), config.lanes)),
            }
        )

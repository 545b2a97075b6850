"""The bundles of signals between units, each written from the side that drives most of it.

What is Out here is driven by the unit that has the bundle as Out; the other side has it as In,
and `connect` joins the two. `en` says that the members beside it count in this cycle, unless
something else is said. A bundle's ports in Verilog are called bundle_member.
"""

from __future__ import annotations

from amaranth.hdl import ShapeLike, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from rtl.interface.command import PARAMETER_PLANES
from rtl.interface.config import Config
from rtl.interface.operation import EMBED
from rtl.interface.tile import BANKS, NORM_INDEX_BITS, Operand, Tag, address_bits
from rtl.primitives.memory import WritePort

TOKEN = data.StructLayout(
    {
        "id": unsigned(24),
        "type": unsigned(1),
        "attend": unsigned(1),
        "ends": unsigned(1),
        "unused": unsigned(5),
    }
)
"""A word of the tokens stream: id[23:0], type[24], attend[25], ends[26]: its sequence's last."""

TOKEN_WORD = data.StructLayout({"data": TOKEN, "last": unsigned(1)})


def stream_word(lanes: int) -> data.StructLayout:
    """A word of the command stream: N bytes, the first in the lowest bits, and `last`."""
    return data.StructLayout({"data": unsigned(8 * lanes), "last": unsigned(1)})


def row_word(lanes: int) -> data.StructLayout:
    """A word of an embedding row: N int8 values, and `last` with the row's last."""
    return data.StructLayout({"data": int8_word(lanes), "last": unsigned(1)})


def int8_word(lanes: int) -> data.ArrayLayout:
    """N int8 values, one a lane."""
    return data.ArrayLayout(signed(8), lanes)


def int16_word(lanes: int) -> data.ArrayLayout:
    """N int16 values, one a lane."""
    return data.ArrayLayout(signed(16), lanes)


class TableWrite(WritePort):
    """Writes an entry of the activation table, in all lanes: address is the code as a byte."""

    def __init__(self) -> None:
        super().__init__(8, 8)


class MaskWrite(wiring.Signature):
    """Writes the attend bit of a key.

    Members
    -------
    en, address, attend : Out
        All of a batch's come before its first score; address is the token's place.
    """

    def __init__(self, places: int) -> None:
        super().__init__({"en": Out(1), "address": Out(range(places)), "attend": Out(1)})


class TokenWrite(wiring.Signature):
    """Tokens as they are read.

    Members
    -------
    en : Out
        A token that is kept.
    address : Out
        Its place: row tile * N + lane, where each sequence begins a row tile; valid with en.
    token : Out
        `TOKEN`, valid with en; `ends` is set in the last of each sequence.
    """

    def __init__(self, config: Config) -> None:
        super().__init__({"en": Out(1), "address": Out(range(config.places)), "token": Out(TOKEN)})


class Batch(wiring.Signature):
    """The sequences of an inference, side by side in row tiles.

    Members
    -------
    ready : Out
        From the cycle on in which they are known and good, until the reset.
    sequences, row_tiles : Out
        How many, and the row tiles that they take together; valid and stable with ready.
    gathered : Out
        ceil(sequences / N): the row tiles of one token of each; as sequences.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "ready": Out(1),
                "sequences": Out(range(config.row_tiles + 1)),
                "row_tiles": Out(range(config.row_tiles + 1)),
                "gathered": Out(range(config.gathered_tiles + 1)),
            }
        )


class LengthWrite(WritePort):
    """Writes the length of a sequence: address is its number in the batch.

    All come before the batch is ready.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(range(config.row_tiles), range(config.tokens + 1))


class Limit(wiring.Signature):
    """The longest sequence that the loaded model takes.

    Members
    -------
    valid : Out
        From the check of the HEADER until the reset.
    tokens : Out
        Valid with valid.
    """

    def __init__(self) -> None:
        super().__init__({"valid": Out(1), "tokens": Out(16)})


class WeightWrite(wiring.Signature):
    """Writes a word of a weight tile.

    Members
    -------
    en : Out
        `address` and `data` are a word of it.
    buffer : Out
        The half that is filled; valid whenever one is, by an EMBED too.
    address : Out
        Within the half.
    data : Out
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "en": Out(1),
                "buffer": Out(1),
                "address": Out(range(config.weight_words)),
                "data": Out(int8_word(config.lanes)),
            }
        )


class ParameterWrite(wiring.Signature):
    """Writes a byte plane of bias, m and s of N channels.

    Members
    -------
    en, buffer : Out
        The half of the double buffer; it must be free.
    plane : Out
        0..3 bias, 4 and 5 m, 6 s; the lowest byte first.
    data : Out
        Byte i belongs to channel i.
    """

    def __init__(self, lanes: int) -> None:
        super().__init__(
            {
                "en": Out(1),
                "buffer": Out(1),
                "plane": Out(range(PARAMETER_PLANES)),
                "data": Out(8 * lanes),
            }
        )


class NormParameterWrite(wiring.Signature):
    """Writes the parameters of a channel, while no NORM is queued or running.

    Members
    -------
    en : Out
    address : Out
        The channel.
    gamma, beta : Out, signed(16) and signed(32)
    operand_shift : Out, 3
        Of its int8 operand, 1..8; 8 as 0.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__(
            {
                "en": Out(1),
                "address": Out(range(hidden)),
                "gamma": Out(signed(16)),
                "beta": Out(signed(32)),
                "operand_shift": Out(3),
            }
        )


class Release(wiring.Signature):
    """Progress of a double buffer's consumer.

    Members
    -------
    en : Out
        Pulse: a half is free; it may be written from the next cycle on.
    buffer : Out
        Which; valid with en.
    """

    def __init__(self) -> None:
        super().__init__({"en": Out(1), "buffer": Out(1)})


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


class RowsFill(wiring.Signature):
    """An EMBED in the loader's hands, whose rows the embedding unit puts into the weight halves.

    Members
    -------
    active : Out
        An EMBED is in hand.
    fields : Out
        `EMBED`, valid with active and the two cycles before.
    fill : Out
        The half in turn may be written.
    done : In
        Pulse: it is full.
    last : In
        It was the sequence's last one; valid with done.
    """

    def __init__(self) -> None:
        super().__init__(
            {"active": Out(1), "fields": Out(EMBED), "fill": Out(1), "done": In(1), "last": In(1)}
        )


class Multiplier(wiring.Signature):
    """A multiplier m * 2^-s of a tensor.

    Members
    -------
    m, s : Out
        Stable from an ATTEND's first tile until the array is quiet.
    """

    def __init__(self) -> None:
        super().__init__({"m": Out(16), "s": Out(6)})


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
    """

    def __init__(self, lanes: int, tokens: int, places: int) -> None:
        super().__init__(
            {
                "en": Out(1),
                "buffer": Out(1),
                "first": Out(1),
                "last": Out(1),
                "key": Out(range(tokens)),
                "place": Out(range(places)),
                "data": Out(int16_word(lanes)),
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
    write_ahead : Out
        The write_en of the cycle that is the epilogue's `ahead` cycles away.
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
                "write_ahead": Out(1),
            }
        )


class LogitWrite(wiring.Signature):
    """A logit of N sequences, or of one of them.

    Members
    -------
    en : Out
    lanes : Out
        Sequence s of the batch is lane s modulo N: those whose logit it is.
    index : Out
        (s div N) * stride + label, see `LogitLayout`.
    value : Out, Array(signed(32))
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "en": Out(1),
                "lanes": Out(config.lanes),
                "index": Out(range(config.labels * config.gathered_tiles)),
                "value": Out(data.ArrayLayout(signed(32), config.lanes)),
            }
        )


class LogitLayout(wiring.Signature):
    """How the logits lie.

    Members
    -------
    labels, stride : Out
        Logits of a sequence; words from N sequences to the next N. Of the LINEAR with LOGITS,
        stable until the reset.
    """

    def __init__(self) -> None:
        super().__init__({"labels": Out(16), "stride": Out(16)})


class Operands(wiring.Signature):
    """Addresses of a cycle's two operands.

    Members
    -------
    valid : Out
        There are some; the others are valid.
    first, last : Out
        The tile's first and last operand; low without valid.
    index : Out
        Of the operand within its tile.
    a, a_address, b, b_address : Out
        Sources and addresses.
    b_banks : Out
        A bit for each activation bank: operand B lies there. Low while the issuer is quiet.
    """

    def __init__(self, config: Config) -> None:
        address = address_bits(config)
        super().__init__(
            {
                "valid": Out(1),
                "first": Out(1),
                "last": Out(1),
                "index": Out(config.length_bits),
                "a": Out(Operand),
                "a_address": Out(address),
                "b": Out(Operand),
                "b_address": Out(address),
                "b_banks": Out(BANKS),
            }
        )


class TileEnd(wiring.Signature):
    """The tile in hand, on its way to the epilogue.

    Members
    -------
    start : Out
        Pulse with its last operand, at most once in N cycles.
    tag : Out
        Valid from its first operand to its last.
    """

    def __init__(self, config: Config) -> None:
        super().__init__({"start": Out(1), "tag": Out(Tag(config))})


class Factors(wiring.Signature):
    """Multipliers of the embedding's rows.

    Members
    -------
    token, position, wide : Out
        Of the latest EMBED; stable until the array is quiet.
    """

    def __init__(self) -> None:
        super().__init__({"token": Out(8), "position": Out(8), "wide": Out(1)})


class Region(wiring.Signature):
    """Where the latest ATTEND puts its context.

    Members
    -------
    address, stride : Out
        Of row tile 0, and words a row tile; stable until the array is quiet.
    """

    def __init__(self, config: Config) -> None:
        super().__init__({"address": Out(address_bits(config)), "stride": Out(16)})

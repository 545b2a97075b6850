"""The tile: what one pass of the array over K operand words reads, computes and writes.

The sequencer makes tiles, the issuer starts them, and the part called `Tag` travels with the last
operand through array and epilogue. Every stage holds its own copy.
"""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Cat, Const, Value, unsigned
from amaranth.lib import data

from rtl.interface.config import Config

NORM_INDEX_BITS = 3
SHIFT_BITS = 5
BANKS = 4  # of activations


class Operand(IntEnum):
    """Where a word of an operand comes from.

    X8 and BANK are activations, WEIGHT the weight double buffer, P the softmax's probabilities.
    ONE_HOT (operand A only) is the row-selecting word of the embedding: at operand k, lane k >> 1
    carries the token factor (k even) or the position factor (k odd). Of wide rows lane k >> 2 does,
    for k & 3 = 0 and 2, and 1 for the low bytes between them.
    """

    X8 = 0
    BANK = 1
    WEIGHT = 2
    P = 3
    ONE_HOT = 4


class Epilogue(IntEnum):
    """Treatment of a drained column.

    INT8: bias, requantize to int8, table if the tile says so, into an activation bank.
    RESIDUAL: bias, requantize to int16, add to X16 with saturation, into X16.
    EMBEDDING: saturate to int16, into X16.
    SCORE: requantize to int16 with the tensor's multiplier, into the softmax.
    CONTEXT: requantize to int8 with each query's multiplier, into an activation bank.
    LOGITS: bias, int32, into the result memory.
    """

    INT8 = 0
    RESIDUAL = 1
    EMBEDDING = 2
    SCORE = 3
    CONTEXT = 4
    LOGITS = 5


def address_bits(config: Config) -> int:
    """Width that holds an activation bank address, an X address and a weight address."""
    return max(
        (4 * config.bank_words - 1).bit_length(),
        (config.x_words - 1).bit_length(),
        (2 * config.weight_words - 1).bit_length(),
        (config.places - 1).bit_length(),
        (config.logit_words - 1).bit_length(),
    )


class Tag(data.StructLayout):
    """The fields of a tile that its columns need.

    Members
    -------
    epilogue, table, transposed
        How a column is finished; with `transposed` bias, m and s belong to lanes, not columns.
    weight_buffer
        Which half of the parameter double buffer applies.
    softmax_buffer, score_first, score_last
        SCORE and CONTEXT: which half of the softmax; first and last tile of a row of scores.
    release
        The half's parameters are free after this tile.
    address, columns
        Where column 0 goes (the others follow), and behind which column the last one is written.
    skipped
        With several ways: words of N columns before the first one that is written.
    way
        With several ways: INT8, CONTEXT: where the columns are written.
    read
        RESIDUAL: where the word of X16 lies that column 0 is added to.
    gather, lane
        RESIDUAL, LOGITS: lane 0 alone is written, into this lane.
    row
        SCORE: the row tile of the keys; with several ways the group of row tiles.
    shift
        RESIDUAL: rounding shift of X16. With `gated` that of the product.
    gated
        INT8, with gates: the result is the product with the word that it replaces.
    head, apart
        SCORE with a position bias: the head, and the row tile of the first key less that of the
        queries; with windows the latter.
    turned
        With rotary positions: INT8 of a LINEAR with ROTARY; it drains `TURNED_LATE` columns more.
        The members that follow are of it alone.
    place
        The row tile within its sequence.
    pair, last_pair
        First and last pair of the tables that a head takes.
    begins, repeats
        The tile begins with the first pair; with that of the tile before it. Without both it goes
        on behind it.
    row_tile_done
        The row tile of X16 is complete with this tile.
    table_last
        The operation's last tile: its use of the activation table, or of its width, ends.
    """

    def __init__(self, config: Config) -> None:
        turns = int(config.rotary_pairs > 0)
        super().__init__(
            {
                "epilogue": Epilogue,
                "table": unsigned(1),
                "transposed": unsigned(1),
                "weight_buffer": unsigned(1),
                "release": unsigned(1),
                "softmax_buffer": unsigned(1),
                "score_first": unsigned(1),
                "score_last": unsigned(1),
                "address": unsigned(address_bits(config)),
                "columns": unsigned(config.tile_columns.bit_length()),
                "skipped": range(config.ways),
                "way": range(config.ways),
                "read": unsigned(address_bits(config)),
                "gather": unsigned(1),
                "lane": range(config.lanes),
                "row": range(config.row_groups),
                "head": range(config.bias_heads),
                "apart": range(config.bias_head_words),
                "turned": unsigned(turns),
                "place": range(turns * config.row_tiles),
                "pair": range(config.rotary_pairs),
                "last_pair": range(config.rotary_pairs),
                "begins": unsigned(turns),
                "repeats": unsigned(turns),
                "shift": unsigned(SHIFT_BITS),
                "gated": unsigned(int(config.gated)),
                "row_tile_done": unsigned(1),
                "table_last": unsigned(1),
            }
        )


def last_drained(columns: Value, config: Config) -> Value:
    """The last of the columns that a tile drains: whole words of N, up to the last written one."""
    bits = config.lanes.bit_length() - 1
    words = Value.cast(columns - 1)[bits:][: config.way_bits]
    return Cat(Const(config.lanes - 1, bits), words)


class Tile(data.StructLayout):
    """One pass of the array.

    Members
    -------
    a, a_address, b, b_address
        Operand sources and the address of their first words; the others follow. Operand B is the
        words at this address in all ways.
    a_way
        With several ways: that of operand A, where it is in X8 or a bank.
    length
        K, the number of operand words.
    release
        The weight buffer (and its parameters) is free after this tile.
    weights, norm, softmax
        What the first operand waits for: a loaded weight half, a normalised row tile (set for
        operands in WEIGHT and X8), a finished softmax pass.
    norm_index, row
        For `norm`: how many NORMs come before the operation (modulo), and which row tile must have
        been normalised by the last of them.
    operation
        Descriptor's number in the stream (modulo 256), for traces and counters.
    tag
        What the columns need.
    low, joined
        Where there are wide operands: the first of two passes, which reads low halves and is not
        drained; the second, which goes on from the sum of the first.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(
            {
                "a": Operand,
                "a_address": unsigned(address_bits(config)),
                "a_way": range(config.ways),
                "b": Operand,
                "b_address": unsigned(address_bits(config)),
                "length": unsigned(config.length_bits),
                "release": unsigned(1),
                "weights": unsigned(1),
                "norm": unsigned(1),
                "softmax": unsigned(1),
                "norm_index": unsigned(NORM_INDEX_BITS),
                "row": unsigned(config.row_tiles.bit_length()),
                "operation": unsigned(8),
                "tag": Tag(config),
                "low": unsigned(int(config.precise)),
                "joined": unsigned(int(config.precise)),
            }
        )

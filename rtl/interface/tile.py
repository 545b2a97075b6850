"""The tile: what one pass of the array over K operand words reads, computes and writes.

The sequencer makes tiles, the issuer starts them, and the part called `Tag` travels with the last
operand through array and epilogue. Every stage holds its own copy.
"""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Cat, Const, Value, unsigned
from amaranth.lib import data

from rtl.interface.config import BANKS, Config

NORM_INDEX_BITS = 3
SHIFT_BITS = 5


class Operand(IntEnum):
    """The source of an operand's word.

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
        (BANKS * config.bank_words - 1).bit_length(),
        (config.x_words - 1).bit_length(),
        (2 * config.weight_words - 1).bit_length(),
        (config.places - 1).bit_length(),
        (config.logit_words - 1).bit_length(),
    )


class Tag(data.StructLayout):
    """The fields of a tile that its columns need."""

    def __init__(self, config: Config) -> None:
        address, ways = unsigned(address_bits(config)), range(config.ways)
        turns, pairs = int(config.rotary_pairs > 0), range(config.rotary_pairs)
        super().__init__(
            {
                "epilogue": Epilogue,
                "table": unsigned(1),  # INT8: through the activation table
                "transposed": unsigned(1),  # bias, m and s belong to lanes, not columns
                "weight_buffer": unsigned(1),  # which half of the parameter double buffer
                "release": unsigned(1),  # the half's parameters are free after this tile
                "softmax_buffer": unsigned(1),  # SCORE, CONTEXT: which half of the softmax
                "score_first": unsigned(1),  # first and last tile of a row of scores
                "score_last": unsigned(1),
                "address": address,  # where column 0 goes; the others follow
                "columns": unsigned(config.tile_columns.bit_length()),  # up to the last one written
                # With several ways: words of N columns before the first one that is written; of an
                # activation bank the way that they are written in.
                "skipped": ways,
                "way": ways,
                "read": address,  # RESIDUAL: the word of X16 that column 0 is added to
                "gather": unsigned(1),  # RESIDUAL, LOGITS: lane 0 alone is written, into `lane`
                "lane": range(config.lanes),
                "row": range(config.row_groups),  # SCORE: row tile of the keys, or group of them
                "head": range(config.bias_heads),  # SCORE with a position bias
                "apart": range(config.bias_head_words),  # SCORE: row tile of keys less of queries
                # INT8 of a LINEAR with ROTARY: it drains `TURNED_LATE` columns more. Its row tile
                # within the sequence; first and last pair of the tables that a head takes; the tile
                # begins with the first pair, with that of the tile before it, or goes on behind.
                "turned": unsigned(turns),
                "place": range(turns * config.row_tiles),
                "pair": pairs,
                "last_pair": pairs,
                "begins": unsigned(turns),
                "repeats": unsigned(turns),
                "shift": unsigned(SHIFT_BITS),  # RESIDUAL: of X16; `gated`: of the product
                "gated": unsigned(int(config.gated)),  # INT8: times the word that it replaces
                "row_tile_done": unsigned(1),  # the row tile of X16 is complete with this tile
                "table_last": unsigned(1),  # the operation's last use of the table, or its width
            }
        )


def last_drained(columns: Value, config: Config) -> Value:
    """The last of the columns that a tile drains: whole words of N, up to the last written one."""
    bits = config.lanes.bit_length() - 1
    words = Value.cast(columns - 1)[bits:][: config.way_bits]
    return Cat(Const(config.lanes - 1, bits), words)


class Tile(data.StructLayout):
    """One pass of the array."""

    def __init__(self, config: Config) -> None:
        address = unsigned(address_bits(config))
        super().__init__(
            {
                # Sources of the operands and the address of their first words; the others follow.
                # Operand B is the words at its address in all ways, operand A that of `a_way`.
                "a": Operand,
                "a_address": address,
                "a_way": range(config.ways),
                "b": Operand,
                "b_address": address,
                "length": unsigned(config.length_bits),  # K, the number of operand words
                "release": unsigned(1),  # the weight half and its parameters are free after it
                # What the first operand waits for: a loaded weight half; a normalised row tile, by
                # how many NORMs come before the operation (modulo) and which must be normalised by
                # the last of them; a finished softmax pass.
                "weights": unsigned(1),
                "norm": unsigned(1),
                "softmax": unsigned(1),
                "norm_index": unsigned(NORM_INDEX_BITS),
                "row": unsigned(config.row_tiles.bit_length()),
                "operation": unsigned(8),  # descriptor's number in the stream (modulo 256)
                "tag": Tag(config),
                # Of wide operands: the first of two passes, which reads low halves and is not
                # drained; the second, which goes on from the sum of the first.
                "low": unsigned(int(config.precise)),
                "joined": unsigned(int(config.precise)),
            }
        )

"""The free choices of an accelerator, and every width and depth that follows from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from cli.errors import UserError

from golden.model import HIDDEN_MAX, TOKENS_MAX
from rtl.interface.mechanisms import MECHANISMS

LANES = (4, 8, 16, 32, 64)
WAYS = (1, 2, 4, 8)
"""Columns of a tile for each lane."""
BANKS = 4  # of activations


def ceil_div(x: int, y: int) -> int:
    """x / y rounded up, for positive integers."""
    return -(-x // y)


def power_of_two(x: int) -> int:
    """The smallest power of two that is at least x."""
    return 1 << (x - 1).bit_length()


def array(lanes: int, columns: int) -> str:
    """An accelerator's array in words."""
    return f"{lanes} lanes" + (f" and {columns} columns" if columns != lanes else "")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Limits of one generated accelerator; any model within them runs on it.

    Parameters
    ----------
    lanes
        N: the array has N rows of MACs, a word N bytes. 4, 8, 16, 32 or 64.
    columns
        M: MACs of a row, N, 2 N, 4 N or 8 N. None: N.
    tokens
        Longest sequence; several share what it takes, each in row tiles of its own.
    hidden
        Widest hidden state; also the widest padded V, heads * ceil(head size / N) * N.
    ffn
        Widest feed-forward layer.
    labels
        Most logits of a sequence; where every token has some, those of its row tiles together take
        `logit_words`.
    dsp_macs
        How many of the N x M MACs use a DSP multiplier; the others are built from LUTs.
        None: all of them.
    precise
        Activations have 16 bits where a model's have (X8 and the feed-forward buffer): LINEARs that
        read them take two passes.
    bias_heads
        Heads whose position bias there is a memory for; 0: models have none.
    gated
        Feed-forward networks may be gated; False: none is.
    rotary_pairs
        Pairs of channels of all tables of rotary positions that there is a memory for; 0: models
        have none.

    Raises
    ------
    ValueError
        A value is outside its range; the message names it.
    """

    lanes: int = 8
    columns: int | None = None
    tokens: int = 128
    hidden: int = 128
    ffn: int = 512
    labels: int = 64
    dsp_macs: int | None = None
    precise: bool = False
    bias_heads: int = 0
    gated: bool = False
    rotary_pairs: int = 0

    def __post_init__(self) -> None:
        if self.lanes not in LANES:
            raise UserError(f"lanes is {self.lanes}: choose one of {', '.join(map(str, LANES))}")
        widths = [self.lanes * ways for ways in WAYS]
        if self.columns is not None and self.columns not in widths:
            raise UserError(
                f"columns is {self.columns}: with {self.lanes} lanes choose one of "
                f"{', '.join(map(str, widths))}"
            )
        for name, maximum in (
            ("tokens", TOKENS_MAX),
            ("hidden", HIDDEN_MAX),
            ("ffn", 4096),
            ("labels", 4096),
        ):
            value = getattr(self, name)
            if not 1 <= value <= maximum:
                raise UserError(f"{name} is {value}: it must lie in 1..{maximum}")
        if self.columns == self.lanes:  # one name for one array
            object.__setattr__(self, "columns", None)
        if self.dsp_macs is not None and not 0 <= self.dsp_macs <= self.macs:
            raise UserError(
                f"dsp_macs is {self.dsp_macs}: it must lie in 0..{self.macs}, lanes x columns"
            )
        for one in MECHANISMS:
            value = getattr(self, one.name)
            if not one.most and not isinstance(value, bool):
                raise UserError(f"{one.name} is {value!r}: choose one of False, True")
            if one.most and not 0 <= value <= one.most:
                raise UserError(f"{one.name} is {value}: it must lie in 0..{one.most}")

    @property
    def widest(self) -> int:
        """The longest sum of a LINEAR."""
        return max(self.hidden, self.ffn)

    @property
    def ways(self) -> int:
        """c = M / N: words of operand B in a cycle. Each of its memories has as many ways."""
        return self.tile_columns // self.lanes

    @property
    def way_bits(self) -> int:
        """Width of a way's number."""
        return self.ways.bit_length() - 1  # a HEADER has it in the place of flags

    @property
    def tile_columns(self) -> int:
        """M: columns of a tile."""
        return self.lanes if self.columns is None else self.columns

    @property
    def stream_width(self) -> int:
        """Bytes of a word of the command stream, M: the weights of an input in a tile."""
        return self.tile_columns

    @property
    def macs(self) -> int:
        """MACs of the array, N x M."""
        return self.lanes * self.tile_columns

    @property
    def row_tiles(self) -> int:
        """Row tiles of the longest sequence."""
        return ceil_div(self.tokens, self.lanes)

    @property
    def row_groups(self) -> int:
        """Row tiles of the longest sequence, as many together as there are ways."""
        return ceil_div(self.row_tiles, self.ways)

    @property
    def places(self) -> int:
        """Tokens that the memories hold, the last row tile of each sequence counted whole."""
        return self.row_tiles * self.lanes

    @property
    def gathered_tiles(self) -> int:
        """Row tiles of the first tokens of as many sequences as there may be."""
        return ceil_div(self.row_tiles, self.lanes)

    @property
    def logit_words(self) -> int:
        """Depth of the logits' memory: a word is one logit of N sequences, or of N tokens."""
        return self.labels * self.gathered_tiles

    @property
    def x_words(self) -> int:
        """Depth of X16: one word a row tile and channel."""
        return self.row_tiles * self.hidden

    @property
    def x8_words(self) -> int:
        """Depth of each way of X8."""
        return self.row_groups * self.hidden

    @property
    def bank_words(self) -> int:
        """Depth of each way of the four activation banks (Q, K, V, C; together the FFN buffer).

        A power of two, so that the two top bits of an activation address name the bank. V has a
        word for each place and N channels.
        """
        words = ceil_div(self.hidden, self.lanes)
        per_row_tile = max(words * self.lanes, ceil_div(self.ffn, 4))
        value = ceil_div(words, self.ways) * self.places
        return power_of_two(max(self.row_groups * per_row_tile, value))

    @property
    def bias_head_words(self) -> int:
        """Words of a head's position bias, N values each: for every k - q of the longest sequence.

        A power of two, so that an address is the head, and k - q in words modulo that.
        """
        return power_of_two(2 * self.row_tiles)

    @property
    def weight_words(self) -> int:
        """Depth of one half of the weight double buffer, in each way.

        A weight tile has K words; a row tile of wide embedding rows has 4N words a column tile.
        """
        embedding = 4 * ceil_div(self.hidden, self.tile_columns) * self.lanes
        return power_of_two(max(self.widest, embedding))

    @property
    def length_bits(self) -> int:
        """Width of K, the length of a sum."""
        return max(self.weight_words, self.tokens).bit_length()

    @property
    def acc_bits(self) -> int:
        """Width of an accumulator: K products of 2^14 (linear, scores) or 255 * 2^7.

        Of weights at most 127 and two passes no more: 128 * 127 + 127 / 2 a product, and 1.
        """
        linear = self.widest << 14
        context = self.tokens * 255 * 128
        return max(linear, context).bit_length() + 1

    def as_dict(self) -> dict[str, int | bool | None]:
        """The free choices, for reports."""
        return asdict(self)

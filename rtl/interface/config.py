"""The free choices of an accelerator, and every width and depth that follows from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass

LANES = (4, 8, 16, 32, 64)


def ceil_div(x: int, y: int) -> int:
    """x / y rounded up, for positive integers."""
    return -(-x // y)


def power_of_two(x: int) -> int:
    """The smallest power of two that is at least x."""
    return 1 << (x - 1).bit_length()


CONFIG_KEYS = {
    "configuration{}": "the accelerator's limits and choices, by option; null: the default"
}


@dataclass(frozen=True, kw_only=True)
class Config:
    """Limits of one generated accelerator; any model within them runs on it.

    Parameters
    ----------
    lanes
        N: the array has N x N MACs, a word N bytes. 4, 8, 16, 32 or 64.
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
        How many of the N^2 MACs use a DSP multiplier; the others are built from LUTs.
        None: all of them.
    norm_lanes
        Lanes of LayerNorm: N over a power of two, and each word is read so much more often. None:
        all N.
    epilogue_lanes
        Lanes of the epilogue: N over a power of two, and each column drains in so many parts. None:
        all N.
    precise
        Activations have 16 bits where a model's have (X8 and the feed-forward buffer): LINEARs that
        read them take two passes.

    Raises
    ------
    ValueError
        A value is outside its range; the message names it.
    """

    lanes: int = 8
    tokens: int = 128
    hidden: int = 128
    ffn: int = 512
    labels: int = 64
    dsp_macs: int | None = None
    norm_lanes: int | None = None
    epilogue_lanes: int | None = None
    precise: bool = False

    def __post_init__(self) -> None:
        if self.lanes not in LANES:
            raise ValueError(f"lanes is {self.lanes}: choose one of {', '.join(map(str, LANES))}")
        for name, maximum in (("tokens", 4096), ("hidden", 1024), ("ffn", 4096), ("labels", 4096)):
            value = getattr(self, name)
            if not 1 <= value <= maximum:
                raise ValueError(f"{name} is {value}: it must lie in 1..{maximum}")
        if self.dsp_macs is not None and not 0 <= self.dsp_macs <= self.lanes**2:
            raise ValueError(
                f"dsp_macs is {self.dsp_macs}: it must lie in 0..{self.lanes**2}, lanes squared"
            )
        allowed = [1 << bits for bits in range(self.lanes.bit_length())]
        for name in ("norm_lanes", "epilogue_lanes"):
            value = getattr(self, name)
            if value is not None and value not in allowed:
                choices = ", ".join(map(str, allowed))
                raise ValueError(f"{name} is {value}: choose one of {choices}")
        if not isinstance(self.precise, bool):
            raise ValueError(f"precise is {self.precise!r}: choose one of False, True")

    @property
    def norm_parts(self) -> int:
        """Parts of a word that LayerNorm takes one after the other."""
        return self.lanes // (self.norm_lanes or self.lanes)

    @property
    def column_parts(self) -> int:
        """Parts of a column that the array drains one after the other."""
        return self.lanes // (self.epilogue_lanes or self.lanes)

    @property
    def drain(self) -> int:
        """Cycles that a tile's columns take to drain."""
        return self.lanes * self.column_parts

    @property
    def row_tiles(self) -> int:
        """Row tiles of the longest sequence."""
        return ceil_div(self.tokens, self.lanes)

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
        """Depth of X16 and of X8: one word a row tile and channel."""
        return self.row_tiles * self.hidden

    @property
    def bank_words(self) -> int:
        """Depth of each of the four activation banks (Q, K, V, C; together the FFN buffer).

        A power of two, so that the two top bits of an activation address name the bank.
        """
        per_row_tile = max(ceil_div(self.hidden, self.lanes) * self.lanes, ceil_div(self.ffn, 4))
        return power_of_two(self.row_tiles * per_row_tile)

    @property
    def weight_words(self) -> int:
        """Depth of one half of the weight double buffer.

        A weight tile has K words; a row tile of wide embedding rows has 4N words a column tile.
        """
        embedding = 4 * ceil_div(self.hidden, self.lanes) * self.lanes
        return power_of_two(max(self.hidden, self.ffn, embedding))

    @property
    def length_bits(self) -> int:
        """Width of K, the length of a sum."""
        return max(self.weight_words, self.tokens).bit_length()

    @property
    def acc_bits(self) -> int:
        """Width of an accumulator: K products of 2^14 (linear, scores) or 255 * 2^7.

        Of weights at most 127 and two passes no more: 128 * 127 + 127 / 2 a product, and 1.
        """
        linear = max(self.hidden, self.ffn) << 14
        context = self.tokens * 255 * 128
        return max(linear, context).bit_length() + 1

    def as_dict(self) -> dict[str, int | bool | None]:
        """The free choices, for reports."""
        return asdict(self)

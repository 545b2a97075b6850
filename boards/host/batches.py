"""How much a board takes at a time, and which sequences go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from boards.host.board import BoardError
from boards.protocol import Info
from golden.model import Model
from rtl.compile.first_fit import first_fit
from rtl.compile.fit import longest_sequence, most_row_tiles
from rtl.interface.config import Config

WORD_BYTES = 4
CHOICES = ("lanes", "columns", "tokens", "hidden", "ffn", "labels")


def config_of(info: Info) -> Config:
    """The accelerator on a board."""
    return Config(**{name: getattr(info, name) for name in CHOICES})


@dataclass(frozen=True)
class Room:
    """What a batch of a model may have on a board.

    Attributes
    ----------
    lanes
        Tokens of a row tile: each sequence takes whole ones.
    row_tiles
        Of all sequences together, as the accelerator's memories hold them.
    longest
        Tokens of the longest sequence.
    tokens
        Of all sequences together, as a request holds them.
    """

    lanes: int
    row_tiles: int
    longest: int
    tokens: int

    @classmethod
    def of(cls, model: Model, info: Info) -> Room:
        """Raises BoardError where the model does not fit the accelerator on the board."""
        tokens, config = info.longest // WORD_BYTES, config_of(info)
        try:
            longest = min(longest_sequence(model, config), tokens)
        except ValueError as error:
            raise BoardError(f"this model does not run on the board: {error}") from None
        return cls(config.lanes, most_row_tiles(model, config), longest, tokens)

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """The places of sequences of these lengths, 1..longest, by batch."""
        return first_fit(lengths, self.lanes, self.row_tiles, self.tokens)

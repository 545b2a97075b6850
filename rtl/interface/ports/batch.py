"""The batch in hand, as the reader of the tokens writes and says it."""

from __future__ import annotations

from rtl.interface.config import Config
from rtl.interface.word import TOKEN
from rtl.primitives.members import Bundle, Out
from rtl.primitives.memory import WritePort


class TokenWrite(Bundle):
    """Tokens as they are read."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            en=Out(1, "A token that is kept."),
            address=Out(
                range(config.places), "Row tile * N + lane; each sequence begins a row tile."
            ),
            token=Out(TOKEN, "`TOKEN`, valid with en; `ends` is set in the last of each sequence."),
        )


class Batch(Bundle):
    """The sequences of an inference, side by side in row tiles."""

    def __init__(self, config: Config) -> None:
        super().__init__(
            ready=Out(1, "From the cycle on in which they are known and good, until the reset."),
            sequences=Out(
                range(config.row_tiles + 1),
                "How many, and the row tiles that they take; stable with ready.",
            ),
            row_tiles=Out(range(config.row_tiles + 1), ...),
            gathered=Out(range(config.gathered_tiles + 1), "Row tiles of one token of each."),
        )


class LengthWrite(WritePort):
    """Writes the length of a sequence: address is its number in the batch.

    All come before the batch is ready.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(range(config.row_tiles), range(config.tokens + 1))


class MaskWrite(Bundle):
    """Writes the attend bit of a key."""

    def __init__(self, places: int) -> None:
        super().__init__(
            en=Out(1, "All come before the batch's first score; address is the token's place."),
            address=Out(range(places), ...),
            attend=Out(1, ...),
        )

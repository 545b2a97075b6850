"""The batch in hand, as the reader of the tokens writes and says it."""

from __future__ import annotations

from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from rtl.interface.config import Config
from rtl.interface.word import TOKEN
from rtl.primitives.memory import WritePort


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


class MaskWrite(wiring.Signature):
    """Writes the attend bit of a key.

    Members
    -------
    en, address, attend : Out
        All of a batch's come before its first score; address is the token's place.
    """

    def __init__(self, places: int) -> None:
        super().__init__({"en": Out(1), "address": Out(range(places)), "attend": Out(1)})
